# SPDX-License-Identifier: Apache-2.0
"""Reads a header of this library: what it declares, and the `///` comment of each.

It knows the style of these headers, not C++: clang-format has been over them, `detail` is nobody's business, and what
is not commented is not shown, but for the fields of an aggregate.
"""

import dataclasses
import re

LABELS = ("Shapes", "Saves", "Cost", "Comm", "Order", "Init", "Memory", "Staleness", "Idle", "Source", "Sources")
TAGS = {"pre": "Requires", "throws": "Throws", "param": "Argument", "tparam": "Type", "return": "Returns",
        "returns": "Returns"}
ERROR_PATH = re.compile(r"[Tt]he primary template is the error path[.:]?(?:\s+Its (?:pack|argument)'s name is what.*$|"
                        r"\s*(?:D is no Dataset|C is no communicator|something is no Dataset, or no Transform|"
                        r"T is no element of a target)\.)?\s*", re.S)


@dataclasses.dataclass
class Entity:
    kind: str  # type, concept, function, alias, variable
    name: str
    signature: str
    doc: list
    line: int
    fields: list = dataclasses.field(default_factory=list)   # lines of code
    members: list = dataclasses.field(default_factory=list)  # documented ones


@dataclasses.dataclass
class Header:
    about: list
    entities: list
    aliases: list  # without a comment of their own


def closing(text, at):
    """Behind the bracket that closes the one at `at`."""
    depth = 0
    while at < len(text):
        at = over_literal(text, at)
        if text[at] in "({[":
            depth += 1
        elif text[at] in ")}]":
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    raise ValueError("a bracket is not closed")


def over_literal(text, at):
    """The first place from `at` on that is in no string, character or comment."""
    while at < len(text):
        raw = re.compile(r'R"(\w*)\(').match(text, at)
        if raw:
            end = f'){raw[1]}"'
            at = text.index(end, at) + len(end)
        elif text[at] == '"' or (text[at] == "'" and not text[at - 1].isdigit()):
            end = at + 1
            while text[end] != text[at]:
                end += 2 if text[end] == "\\" else 1
            at = end + 1
        elif text.startswith("//", at):
            at = text.index("\n", at)
        elif text.startswith("/*", at):
            at = text.index("*/", at) + 2
        else:
            return at
    return at


def without_template(head):
    """What stands behind template <...>, and behind the requires-clause of the old clang-format."""
    head = head.strip()
    while head.startswith("template"):
        depth = 0
        for at, letter in enumerate(head):
            depth += (letter == "<") - (letter == ">" and head[at - 1] not in "-=")
            if letter == ">" and depth == 0:
                head = head[at + 1:].strip()
                break
        else:
            break
    return head


TYPE = re.compile(r"(?:^|[\s)&>}])(struct|class|enum class|enum|union)\s+(?:\[\[\w+\]\]\s*)?(?:TANDEM_\w+\s+)?(\w+)(?:<.*?>)?"
                  r"\s*(?:final\s*)?(?::(?!:).*)?$", re.S)
INITIALIZERS = re.compile(r"\)\s*(?:noexcept\s*)?:(?!:)", re.S)


def type_of(head):
    match = TYPE.search(without_template(head))
    return match if match and "(" not in match[0].split(":")[0].split("<")[0] else None


def name_of(head):
    """The name that a function, variable or alias declares."""
    rest = re.sub(r"\[\[.*?\]\]", "", without_template(head))
    if rest.startswith("using"):
        return re.match(r"using\s+(\w+)", rest)[1]
    operator = re.search(r"operator\s*(?:\(\)|[^\s(]+)", rest)
    if operator:
        return operator[0]
    call = re.search(r"(~?\w+)\s*\(", rest)
    return call[1] if call else (re.findall(r"\w+", re.split(r"[={;]", rest)[0]) or ["_"])[-1]


def tidy(code):
    """A declaration as it is shown: without attributes, and as far to the left as may be."""
    code = re.sub(r"\[\[nodiscard\]\]\s*|TANDEM_COLD\s+|TANDEM_HOST_DEVICE\s+|(?<!\w)inline\s+", "", code)
    code = re.sub(r"\s*//(?!/<).*", "", code).strip("\n")
    code = re.sub(r"^TANDEM_ONCE\s*", "", code.strip())
    lines = code.splitlines() or [""]
    indents = [len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()]
    least = min(indents, default=0)
    kept = 4 if least >= 4 and len(lines) > 1 and not lines[0].startswith("template") else 0
    return "\n".join([lines[0].strip()] + [" " * kept + line[least:] for line in lines[1:]]).rstrip()


class Reader:
    def __init__(self, text):
        self.text = text
        self.about = []

    def line(self, at):
        return self.text.count("\n", 0, at) + 1

    def scope(self, at, public=True, inside=None):
        """Entities from `at` to the bracket that closes this scope; and where that stands."""
        text, found, doc, fields = self.text, [], [], []
        last = None  # documented, so that its overloads are shown with it
        while at < len(text):
            if text[at].isspace():
                at += 1
                continue
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            line = text[at:end]
            if line.startswith("///<"):
                at = end
            elif line.startswith("///"):
                doc.append(line[3:].removeprefix(" ").rstrip())
                at = end
            elif line.startswith("//"):
                at = end
            elif line.startswith("#"):
                while text[end - 1] == "\\":
                    end = text.index("\n", end + 1)
                if doc and doc[0].startswith("@file"):
                    self.about = doc[1:]
                doc, at = [], end
            elif text[at] == "}":
                return found, fields, at + 1
            elif re.match(r"(public|private|protected)\s*:(?!:)", line):
                public, doc, at = line.startswith("public"), [], text.index(":", at) + 1
            else:
                if doc and doc[0].startswith("@file"):
                    self.about, doc = doc[1:], []
                entity, own, at = self.declaration(at, doc, public, inside)
                if entity and public:
                    if not doc and last and entity.kind == "function" and entity.name == last.name:
                        last.signature += "\n" + entity.signature
                    elif doc or entity.members or (entity.kind == "alias" and not inside):
                        found.append(entity)
                        last = entity
                    else:
                        last = None
                    if not doc and own and entity.kind == "variable":
                        fields.append(own)
                    elif doc and own and entity.kind == "variable" and inside:
                        fields += ["/// " + text for text in doc] + [own]
                        found.remove(entity)
                elif not entity:
                    found += own or []
                doc = []
        return found, fields, at

    def declaration(self, begin, doc, public, inside):
        """The entity that begins there (None for a namespace, whose entities come second), and its end."""
        text, at = self.text, begin
        while True:
            at = over_literal(text, at)
            letter = text[at]
            if letter in "([":
                at = closing(text, at)
                continue
            if letter == ";":
                return self.finished(begin, at, doc, at + 1, inside)
            if letter == "{":
                head = text[begin:at]
                bare = without_template(head)
                if re.match(r"(inline\s+)?namespace\b", bare):
                    if re.search(r"\bdetail\b|namespace\s*$", bare):
                        return None, [], closing(text, at)
                    found, _, end = self.scope(at + 1)
                    return None, found, end
                declares = type_of(head)
                initializers = INITIALIZERS.search(bare)
                if re.search(r"\bconcept\b", bare) or re.match(r"requires\b.*\brequires\s*(\([^{}]*\))?\s*$", bare, re.S):
                    at = closing(text, at)
                elif declares:
                    return self.type(begin, at, declares, doc)
                elif "(" not in bare or re.search(r"(?<!operator)(?<![=!<>+*/-])=(?!=)[^()]*$",
                                                  bare[:initializers.end()] if initializers else bare) or (
                        initializers and (text[at - 1].isalnum() or text[at - 1] in "_>")):
                    at = closing(text, at)
                else:
                    return self.finished(begin, at, doc, closing(text, at), inside)
                continue
            at += 1

    def finished(self, begin, end, doc, after, inside):
        head = self.text[begin:end]
        bare = without_template(head)
        if re.match(r"static_assert|friend|typedef|extern", bare) or (type_of(head) and "(" not in bare):
            return None, [], after
        if "operator" in bare and re.search(r"=\s*(default|delete)\s*$", bare):
            return None, [], after
        concept = re.search(r"\bconcept\s+(\w+)", bare)
        if concept:
            return Entity("concept", concept[1], tidy(head) + ";", doc, self.line(begin)), [], after
        if bare.startswith("using"):
            kind = "alias"
        else:
            before = re.split(r"(?<!operator)(?<![=!<>])=(?!=)", re.sub(r"<[^<>]*>", "", bare))[0]
            kind = "function" if "(" in before else "variable"
        if kind == "function" and (re.search(r"=\s*(delete|default)\s*$", bare) or
                                   re.match(rf"(explicit\s+)?{inside}\({inside}( const)?&", bare)):
            return None, [], after  # copies and moves
        if kind == "function":
            cut = INITIALIZERS.search(head)
            head = head[:cut.start() + 1] if cut else head
            return Entity(kind, name_of(head), tidy(head) + ";", doc, self.line(begin)), [], after
        static = re.match(r"(static|inline|constexpr)\b", bare)
        trailing = re.compile(r"[ \t]*(///<[^\n]*)?").match(self.text, after)[0]
        own = tidy(head) + ";" + ("  //" + trailing.split("///<")[1] if "///<" in trailing else "")
        entity = Entity(kind, name_of(head), tidy(head) + ";", doc, self.line(begin))
        return entity, (own if not static else ""), after

    def type(self, begin, at, declares, doc):
        head = self.text[begin:at]
        keyword, name = declares[1], declares[2]
        signature = tidy(head)
        shown = re.sub(r"\s*:(?!:)\s*(public\s+)?detail::.*$", "", signature, flags=re.S)
        if keyword.startswith("enum"):
            end = closing(self.text, at)
            body = [line.replace("///<", "//").strip() for line in self.text[at + 1:end - 1].splitlines()]
            entity = Entity("type", name, shown, doc, self.line(begin), [line for line in body if line])
        else:
            members, fields, end = self.scope(at + 1, keyword != "class", name)
            entity = Entity("type", name, shown, doc, self.line(begin), fields, members)
        return entity, [], self.text.index(";", end - 1) + 1


def merged(entities):
    """A specialisation without a comment gives its members to the template that has one."""
    named = {}
    kept = []
    for entity in entities:
        first = named.get(entity.name)
        if entity.kind == "type" and first and first.doc and not entity.doc:
            first.members += entity.members
            first.fields = first.fields or entity.fields
        elif entity.kind == "type" and first and not understood(first.doc).text:  # the comment of an error path
            first.signature, first.doc, first.line = entity.signature, entity.doc, entity.line
            first.members, first.fields = entity.members, entity.fields
        elif entity.doc:
            named.setdefault(entity.name, entity)
            kept.append(entity)
        elif entity.kind == "type":
            named.setdefault(entity.name, entity)
            kept.append(entity)
    return [e for e in kept if e.doc]


def plain_aliases(entities):
    return [e for e in entities if e.kind == "alias" and not e.doc]


def read(text):
    reader = Reader(text)
    found = reader.scope(0)[0]
    return Header(reader.about, merged(found), plain_aliases(found))


@dataclasses.dataclass
class Comment:
    """Paragraphs of text, `code` lists of lines; and labelled items, (label, name, text)."""
    text: list
    items: list


def understood(lines):
    """The parts of a comment."""
    text, items, code = [], [], []
    item = paragraph = None
    for line in lines + [""]:
        label = re.match(rf"({'|'.join(LABELS)}):\s+(.*)", line)
        tag = re.match(rf"@({'|'.join(TAGS)})\s+(.*)", line)
        indented = line.startswith("  ")
        is_code = indented or re.search(r"[;{}]\s*(//.*)?$", line) and re.search(r"[({=]", line)
        if code and line and (is_code or line == "}"):
            code.append(line)
            continue
        if code:
            text.append(code)
            code = []
        if label:
            item = [label[1], "", label[2]]
        elif tag:
            named = re.match(r"(\S+)\s+(.*)", tag[2]) if tag[1] != "pre" else None
            item = [TAGS[tag[1]], named[1] if named and tag[1] not in ("return", "returns") else "",
                    named[2] if named and tag[1] not in ("return", "returns") else tag[2]]
        elif item and indented:
            item[2] += " " + line.strip()
            continue
        elif not line.strip():
            item = paragraph = None
            continue
        elif is_code:
            code, paragraph = [line], None
            continue
        else:
            if paragraph is None:
                text.append("")
                paragraph = len(text) - 1
            text[paragraph] = (text[paragraph] + " " + line.strip()).strip()
            item = None
            continue
        items.append(item)
        paragraph = None
    text = [ERROR_PATH.sub("", part).strip() if isinstance(part, str) else part for part in text]
    items = [(label, name, ERROR_PATH.sub("", words).strip()) for label, name, words in items]
    return Comment([part for part in text if part], items)
