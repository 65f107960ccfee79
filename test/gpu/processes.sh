# SPDX-License-Identifier: Apache-2.0
# For scripts that start several processes on the one GPU that is here; they source it.
# shellcheck shell=bash

# in_process NUMBER COUNT MEETING COMMAND ...: as one of COUNT processes that meet at the path MEETING. NCCL_HOSTID
# makes each look like a machine of its own, so that NCCL does not mind that they share a GPU, and everything goes
# through sockets on the loopback device.
in_process() {
  local number=$1 count=$2 meeting=$3
  shift 3
  NCCL_HOSTID="tandem-$number" NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 NCCL_IB_DISABLE=1 NCCL_SOCKET_IFNAME=lo \
    NCCL_DEBUG=${NCCL_DEBUG:-WARN} RANK=$number WORLD_SIZE=$count LOCAL_RANK=0 TANDEM_RENDEZVOUS="file:$meeting" \
    timeout 60 "$@"
}
