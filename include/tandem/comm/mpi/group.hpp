// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// detail::MpiGroup: a group of ranks of several processes, as one of these sees it.
///
/// The ranks of a process meet as threads, and the first of them does for all what crosses
/// processes. A sum is cut into shares, one a process: each gets what the others have of its share,
/// already joined as far as the tree joins them first, finishes it in the order of
/// comm/fixed_tree.hpp, and gives it back. So ranks may be dealt to processes in any way: the bits
/// are those of one process.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tandem/comm/mpi/layout.hpp>
#include <tandem/comm/mpi/tree.hpp>
#include <tandem/comm/mpi/wire.hpp>
#include <tandem/comm/operation.hpp>
#include <tandem/comm/rank_set.hpp>
#include <tandem/comm/share.hpp>
#include <tandem/comm/threads/call.hpp>
#include <tandem/comm/threads/communicator.hpp>
#include <tandem/comm/threads/group.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>

namespace tandem::detail {

/// Not copyable, not movable. The ranks of this process are `local`, others are on the wire.
class MpiGroup {
 public:
  /// @param all   of the ranks of this process; outlives this, and so does @p wire
  /// @param set   the group, of which this process has at least one rank
  /// @param each  ranks a process
  /// @param wire  null where there is one process
  /// @param tag   the first of tags_of()
  TANDEM_COLD MpiGroup(ThreadsGroup& all, RankSet const& set, int each, MpiWire* wire, int process,
                       int tag)
      : layout_{set, each, process},
        ranks_{set.ranks},
        local_{all, of_process(set, layout_, each, process)},
        wire_{wire},
        tag_{tag},
        peers_(layout_.members(layout_.own()).size()) {}
  MpiGroup(MpiGroup const&) = delete;
  MpiGroup& operator=(MpiGroup const&) = delete;
  ~MpiGroup() {
    if (local_.wait_.failure()->failed()) {  // messages under way may still write there
      static_cast<void>(memory_.release());
    }
  }

  /// Tags that a group takes.
  static long long tags_of(MpiLayout const& layout) {
    long long const most = layout.most_members();
    return layout.processes().size() == 1 ? 0 : 1 + most * most;
  }
  static std::shared_ptr<SharedFailure> failure_of(ThreadsGroup const& all) {
    return all.wait_.failure();
  }

  [[nodiscard]] int size() const { return layout_.size(); }
  /// Whether all of its ranks are in this process.
  [[nodiscard]] bool is_local() const { return layout_.processes().size() == 1; }
  [[nodiscard]] bool has_here(int rank) const { return layout_.of_member(rank) == layout_.own(); }
  /// The end of a rank of this process. @pre is_local()
  [[nodiscard]] ThreadsCommunicator here(int rank) { return local_.communicator(place(rank)); }
  [[nodiscard]] int place(int rank) const { return layout_.local_of(rank); }

  template <class T, class Op>
  void all_reduce(int rank, Call const& call, Op op) {
    together(rank, call, [&](std::span<Call const> calls) {
      Ranges ranges(layout_.processes().size());
      for (int p = 0; p < processes(); ++p) {
        Share const share = share_of(p, processes(), call.count, sizeof(T));
        if (share.begin < share.end) {
          ranges[std::size_t(p)] = {share};
        }
      }
      T* const first = static_cast<T*>(calls[0].out);
      reduce<T>(ranges, calls, op, [&](std::size_t, Share of) { return first + of.begin; });
      for (int p = 0; p < processes(); ++p) {
        for (Share const& of : ranges[std::size_t(p)]) {
          if (p != own()) {
            wire_->receive(messages_, process(p), tag_, first + of.begin, bytes_of<T>(of));
          }
        }
        for (Share const& of : ranges[std::size_t(own())]) {
          if (p != own()) {
            wire_->send(messages_, process(p), tag_, first + of.begin, bytes_of<T>(of));
          }
        }
      }
      await(calls[0]);
      copy_out<T>(calls, call.count);
    });
  }

  template <class T, class Op>
  void reduce_scatter(int rank, Call const& call, Op op) {
    together(rank, call, [&](std::span<Call const> calls) {
      Ranges ranges(layout_.processes().size());
      for (int p = 0; call.count > 0 && p < processes(); ++p) {
        for (int const member : layout_.members(p)) {
          std::size_t const begin = static_cast<std::size_t>(member) * call.count;
          ranges[std::size_t(p)].push_back({begin, begin + call.count});
        }
      }
      reduce<T>(ranges, calls, op,
                [&](std::size_t i, Share) { return static_cast<T*>(calls[i].out); });
    });
  }

  template <class T>
  void all_gather(int rank, Call const& call) {
    together(rank, call, [&](std::span<Call const> calls) {
      T* const first = static_cast<T*>(calls[0].out);
      std::size_t const bytes = call.count * sizeof(T);
      for (int p = 0; call.count > 0 && p < processes(); ++p) {
        std::size_t i = 0;
        for (int const member : layout_.members(p)) {
          T* const to = first + static_cast<std::size_t>(member) * call.count;
          if (p != own()) {
            wire_->receive(messages_, process(p), tag_, to, bytes);
          } else if (calls[i].in != to) {
            std::memcpy(to, calls[i].in, bytes);
          }
          ++i;
        }
        for (Call const& from : calls) {
          if (p != own()) {
            wire_->send(messages_, process(p), tag_, from.in, bytes);
          }
        }
      }
      await(calls[0]);
      copy_out<T>(calls, call.count * static_cast<std::size_t>(size()));
    });
  }

  /// Down a binary tree of processes, whose root is that of call.root.
  template <class T>
  void broadcast(int rank, Call const& call) {
    together(rank, call, [&](std::span<Call const> calls) {
      std::size_t const bytes = call.count * sizeof(T);
      int const root = layout_.of_member(call.root);
      int const n = processes();
      int const place = (own() - root + n) % n;
      std::size_t const from =
          place == 0 ? static_cast<std::size_t>(layout_.local_of(call.root)) : 0;
      int step = 1;
      for (; step < n && (place & step) == 0; step *= 2) {
      }
      if (bytes > 0 && place != 0) {
        wire_->receive(messages_, process((place - step + root) % n), tag_, calls[from].out, bytes);
        await(calls[0]);
      }
      for (step /= 2; bytes > 0 && step > 0; step /= 2) {
        if (place + step < n) {
          wire_->send(messages_, process((place + step + root) % n), tag_, calls[from].out, bytes);
        }
      }
      await(calls[0]);
      for (Call const& to : calls) {
        if (bytes > 0 && to.out != calls[from].out) {
          std::memcpy(to.out, calls[from].out, bytes);
        }
      }
    });
  }

  /// In rounds, in each of which a process hears of twice as many.
  void barrier(int rank, Call const& call) {
    together(rank, call, [&](std::span<Call const> calls) {
      for (int step = 1; step < processes(); step *= 2) {
        wire_->send(messages_, process((own() + step) % processes()), tag_, nullptr, 0);
        wire_->receive(messages_, process((own() - step + processes()) % processes()), tag_,
                       nullptr, 0);
        await(calls[0]);
      }
    });
  }

  /// Begins a message to or from a rank of another process; finish() awaits it.
  void begin(int rank, int peer, bool sends, void* data, std::size_t bytes, Label label) {
    Messages& messages = peers_[static_cast<std::size_t>(place(rank))];
    guarded(rank, [&] {
      wire_->poll();
      int const to = process(layout_.of_member(peer));
      if (sends) {
        wire_->send(messages, to, tag_between(rank, peer), data, bytes);
      } else {
        wire_->receive(messages, to, tag_between(peer, rank), data, bytes);
      }
      messages.peer = peer;
      messages.sends = sends;
      messages.label = label;
    });
  }
  /// Awaits what @p rank has begun.
  void finish(int rank, Call const& call) {
    Messages& messages = peers_[static_cast<std::size_t>(place(rank))];
    if (messages.requests.empty()) {
      return;
    }
    guarded(rank, [&] {
      wait(messages, rank, call, [&](int process) {
        bool const one = process == this->process(layout_.of_member(messages.peer));
        return (one ? name_of(messages.peer) : names_of(process)) +
               (messages.sends ? " did not receive a message of" : " did not send a message for") +
               " rank " + std::to_string(number_of(rank)) + in_brackets(messages.label) +
               local_.words_.within();
      });
    });
  }

 private:
  /// Of one rank, and the last one's other end.
  struct Messages : MpiMessages {
    int peer = 0;
    bool sends = false;
    Label label{};
  };
  using Ranges = std::vector<std::vector<Share>>;  // by process: what it joins

  static RankSet of_process(RankSet const& set, MpiLayout const& layout, int each, int process) {
    RankSet own{.ranks = {}, .name = set.name};
    for (int const member : layout.members(layout.own())) {
      own.ranks.push_back(set.ranks[std::size_t(member)] - process * each);
    }
    return own;
  }

  [[nodiscard]] int processes() const { return static_cast<int>(layout_.processes().size()); }
  [[nodiscard]] int own() const { return layout_.own(); }
  [[nodiscard]] int process(int index) const { return layout_.processes()[std::size_t(index)]; }
  [[nodiscard]] int number_of(int member) const { return ranks_[std::size_t(member)]; }
  template <class T>
  static std::size_t bytes_of(Share of) {
    return (of.end - of.begin) * sizeof(T);
  }
  [[nodiscard]] int tag_between(int from, int to) const {
    return tag_ + 1 + place(from) * layout_.most_members() + place(to);
  }

  [[nodiscard]] std::string name_of(int member) const {
    return "rank " + std::to_string(number_of(member)) + " " +
           wire_->place_of(process(layout_.of_member(member)));
  }
  /// Of the members of a process.
  [[nodiscard]] TANDEM_COLD std::string names_of(int process) const {
    auto const& of = layout_.processes();
    auto const index = static_cast<int>(std::find(of.begin(), of.end(), process) - of.begin());
    std::string text;
    for (int const member : layout_.members(index)) {
      text.append(text.empty() ? "" : ", ").append(std::to_string(number_of(member)));
    }
    return (layout_.members(index).size() == 1 ? "rank " : "one of the ranks ") + text + " " +
           wire_->place_of(process);
  }

  /// work(calls) by the first of this process's ranks, when all of them have come.
  template <class Work>
  void together(int rank, Call const& call, Work const& work) {
    int const own = place(rank);
    local_.meet(own, call);
    std::exception_ptr error;
    if (own == 0) {
      try {
        guarded(rank, [&] {
          wire_->poll();
          calls_.clear();
          for (int l = 0; l < local_.size(); ++l) {
            calls_.push_back(local_.call_of(l));
          }
          work(std::span<Call const>{calls_});
        });
      } catch (...) {
        error = std::current_exception();
      }
    }
    local_.leave(own);
    if (error) {
      std::rethrow_exception(error);
    }
    local_.poll();  // the others may go on only if the first did not fail
  }

  /// What fails here leaves other ranks with messages that do not come.
  template <class F>
  void guarded(int rank, F const& f) {
    guarded_message(f, [&](char const* why) { fail(rank, why); });
  }
  TANDEM_COLD void fail(int rank, char const* what) { wire_->fail(number_of(rank), what); }

  void await(Call const& call) {
    if (!messages_.requests.empty()) {
      wait(messages_, layout_.members(own())[0], call, [&](int process) {
        return names_of(process) + " did not reach " + numbered(call, local_.collectives_) +
               local_.words_.within();
      });
    }
  }

  /// @param text  text(process): the sentence about it
  template <class Text>
  void wait(MpiMessages& messages, int rank, Call const& call, Text const& text) {
    std::atomic<int> missing{messages.about.front().process};
    auto const said = [&](int process) { return local_.words_.prefix() + text(process); };
    Awaited awaited{[&](WaitingRank& wait) {
      wait.rank = number_of(rank);
      wait.blocked = call.queue == nullptr || call.queue->awaited();
      wait.prefix = local_.words_.prefix();
      int const process = missing.load(std::memory_order_relaxed);
      for (int m = 0; m < size(); ++m) {
        if (this->process(layout_.of_member(m)) == process) {
          wait.missing.push_back({number_of(m), text(process)});
          return;
        }
      }
    }};
    GroupWait::Elsewhere const listed{local_.wait_, awaited};
    wire_->wait(messages, number_of(rank), missing, said);
  }

  /// Each process joins its ranges, of what all ranks have.
  /// @param out  out(i, range): where the own range number i goes
  template <class T, class Op, class Out>
  void reduce(Ranges const& ranges, std::span<Call const> calls, Op op, Out const& out) {
    TreeOfParts<T> tree{size()};
    auto const& members = layout_.members(own());
    auto const set_own = [&](std::size_t begin) {
      for (std::size_t l = 0; l < members.size(); ++l) {
        tree.set({members[l], 1}, static_cast<T const*>(calls[l].in) + begin);
      }
    };
    T* place = room<T>(ranges);
    std::vector<T const*> come;  // by own range and process's piece
    for (int p = 0; p < processes(); ++p) {
      for (Share const& of : ranges[std::size_t(own())]) {
        for (std::size_t i = 0; p != own() && i < layout_.pieces(p).size(); ++i) {
          wire_->receive(messages_, process(p), tag_, place, bytes_of<T>(of));
          come.push_back(place);
          place += of.end - of.begin;
        }
      }
    }
    for (int p = 0; p < processes(); ++p) {
      for (Share const& of : ranges[std::size_t(p)]) {
        set_own(of.begin);
        for (TreePiece const& piece : layout_.pieces(own())) {
          if (p == own()) {
            continue;
          }
          T const* from =
              static_cast<T const*>(calls[std::size_t(layout_.local_of(piece.first))].in) +
              of.begin;
          if (piece.count > 1) {
            tree.evaluate(piece, of.end - of.begin, place, op);
            from = place;
            place += of.end - of.begin;
          }
          wire_->send(messages_, process(p), tag_, from, bytes_of<T>(of));
        }
      }
    }
    await(calls[0]);
    auto const& own_ranges = ranges[std::size_t(own())];
    for (std::size_t r = 0; r < own_ranges.size(); ++r) {
      std::size_t before = 0;  // pieces of the processes before
      for (int p = 0; p < processes(); ++p) {
        std::size_t const pieces = layout_.pieces(p).size();
        for (std::size_t i = 0; p != own() && i < pieces; ++i) {
          tree.set(layout_.pieces(p)[i], come[before * own_ranges.size() + r * pieces + i]);
        }
        before += p != own() ? pieces : 0;
      }
      set_own(own_ranges[r].begin);
      tree.evaluate({0, size()}, own_ranges[r].end - own_ranges[r].begin, out(r, own_ranges[r]),
                    op);
    }
  }

  /// For what comes, and for what is joined before it goes. Allocates where more is wanted than
  /// before.
  template <class T>
  T* room(Ranges const& ranges) {
    std::size_t bytes = 0;
    for (int p = 0; p < processes(); ++p) {
      for (Share const& of : ranges[std::size_t(p)]) {
        if (p != own()) {
          bytes += bytes_of<T>(of) * layout_.pieces(own()).size();
        }
      }
      for (Share const& of : ranges[std::size_t(own())]) {
        bytes += p == own() ? 0 : bytes_of<T>(of) * layout_.pieces(p).size();
      }
    }
    if (bytes > capacity_) {
      memory_ = std::make_unique<std::byte[]>(bytes);
      capacity_ = bytes;
    }
    return reinterpret_cast<T*>(memory_.get());
  }

  /// What the first rank of this process has, to the others.
  template <class T>
  static void copy_out(std::span<Call const> calls, std::size_t count) {
    for (Call const& to : calls.subspan(1)) {
      if (count > 0) {
        std::memcpy(to.out, calls[0].out, count * sizeof(T));
      }
    }
  }

  MpiLayout layout_;
  std::vector<int> ranks_;  // numbers among all
  ThreadsGroup local_;
  MpiWire* wire_;
  int tag_;
  std::vector<Messages> peers_;  // of each rank here
  MpiMessages messages_;         // of the first rank, as all below
  std::vector<Call> calls_;
  std::unique_ptr<std::byte[]> memory_;
  std::size_t capacity_ = 0;
};

}  // namespace tandem::detail
