#include "framework/config/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "framework/core/names.h"

namespace flow::config {
namespace {

std::size_t count_nodes(const YamlNode& node) {
  std::size_t count = 1;
  for (const YamlNode& item : node.items) count += count_nodes(item);
  for (const YamlMember& member : node.members) count += count_nodes(member.value);
  return count;
}

// Whether a quoted text that begins at `begin` ends before the file does: the parser does not ask.
bool is_closed(std::string_view text, std::size_t begin) {
  const char quote = begin < text.size() ? text[begin] : 0;
  if (quote != '"' && quote != '\'') return true;  // behind a tag or an anchor, where the parser does ask
  for (std::size_t i = begin + 1; i < text.size(); ++i) {
    const bool pair = quote == '"' ? text[i] == '\\' : text.substr(i).starts_with("''");
    if (pair) {
      ++i;
    } else if (text[i] == quote) {
      return true;
    }
  }
  return false;
}

// Builds the tree from the parser's events. The parser recurses once a level, so that refusing depth here
// also bounds its stack.
class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(const std::string& file, Errors& errors) : file_(file), errors_(errors) {
    root_.where = {file, 1, 1};
  }

  YamlNode take_root() { return std::move(root_); }
  /// Where the last quoted text begins.
  const YAML::Mark& last_quote() const { return last_quote_; }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    finish(node(mark, YamlNode::Kind::null), anchor);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    YamlNode scalar = node(mark, YamlNode::Kind::scalar);
    scalar.text = value;
    scalar.quoted = tag == "!" || tag == "tag:yaml.org,2002:str";
    if (scalar.quoted) last_quote_ = mark;
    finish(std::move(scalar), anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto known = anchors_.find(anchor);
    if (known == anchors_.end()) throw YAML::ParserException(mark, "an alias refers to the node it is in");
    count(mark, count_nodes(known->second));
    finish(known->second, 0);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, YamlNode::Kind::list, anchor);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, YamlNode::Kind::map, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  struct Frame {
    YamlNode node;
    YAML::anchor_t anchor = 0;
    std::optional<YamlNode> key;       // of a map, while its value is read
    std::map<std::string, int> lines;  // of the keys so far
    std::vector<YamlNode> merged;
  };

  // Copies count like nodes of the file: a few aliases of aliases would otherwise fill the memory.
  void count(const YAML::Mark& mark, std::size_t more) {
    if ((count_ += more) > kMaxYamlNodes) {
      throw YAML::ParserException(mark, fmt::format("more than {} nodes", kMaxYamlNodes));
    }
  }
  YamlNode node(const YAML::Mark& mark, YamlNode::Kind kind) {
    count(mark, 1);
    YamlNode n;
    n.kind = kind;
    n.where = {file_, mark.line + 1, mark.column + 1};
    return n;
  }
  void open(const YAML::Mark& mark, YamlNode::Kind kind, YAML::anchor_t anchor) {
    if (open_.size() == kMaxYamlDepth) {
      throw YAML::ParserException(mark, fmt::format("nested deeper than {} levels", kMaxYamlDepth));
    }
    open_.push_back({node(mark, kind), anchor, {}, {}, {}});
  }
  void close() {
    Frame frame = std::move(open_.back());
    open_.pop_back();
    for (const YamlNode& source : frame.merged) merge_key(frame, source);
    finish(std::move(frame.node), frame.anchor);
  }
  void finish(YamlNode done, YAML::anchor_t anchor) {
    if (anchor != 0) remember(anchor, done);
    if (open_.empty()) {
      root_ = std::move(done);
    } else if (Frame& frame = open_.back(); frame.node.is_list()) {
      frame.node.items.push_back(std::move(done));
    } else if (!frame.key) {
      frame.key = std::move(done);
    } else {
      add_member(frame, std::move(done));
      frame.key.reset();
    }
  }

  void remember(YAML::anchor_t anchor, const YamlNode& node) {
    YAML::Mark mark;
    mark.line = node.where.line - 1;
    mark.column = node.where.column - 1;
    count(mark, count_nodes(node));
    anchors_[anchor] = node;
  }

  void add_member(Frame& frame, YamlNode value) {
    const YamlNode& key = *frame.key;
    if (value.is_null()) value.where = key.where;  // the parser places it at what follows
    if (!key.is_scalar()) {
      errors_.add(key.where, "", fmt::format("a key must be text, found {}", key.shown()));
    } else if (key.text == "<<" && !key.quoted) {
      if (value.is_list()) {
        std::move(value.items.begin(), value.items.end(), std::back_inserter(frame.merged));
      } else {
        frame.merged.push_back(std::move(value));
      }
    } else if (const auto [first, fresh] = frame.lines.try_emplace(key.text, key.where.line); !fresh) {
      errors_.add(key.where, "",
                  fmt::format("key '{}' occurs twice; the first is in line {}", key.text, first->second));
    } else {
      frame.node.members.push_back({key.text, key.where, std::move(value)});
    }
  }

  // "<<": members that the map does not have itself.
  void merge_key(Frame& frame, const YamlNode& source) {
    if (!source.is_map()) {
      errors_.add(source.where, "", fmt::format("'<<' merges a map, found {}", source.shown()));
    }
    for (const YamlMember& member : source.members) {
      const bool fresh = frame.lines.try_emplace(member.key, member.where.line).second;
      if (fresh) frame.node.members.push_back(member);
    }
  }

  const std::string& file_;
  Errors& errors_;
  YamlNode root_;
  YAML::Mark last_quote_;
  std::vector<Frame> open_;
  std::map<YAML::anchor_t, YamlNode> anchors_;
  std::size_t count_ = 0;
};

}  // namespace

const YamlNode* YamlNode::find(std::string_view key) const {
  for (const YamlMember& m : members) {
    if (m.key == key) return m.value.is_null() ? nullptr : &m.value;
  }
  return nullptr;
}

YamlMember* YamlNode::member(std::string_view key) {
  for (YamlMember& m : members) {
    if (m.key == key) return &m;
  }
  return nullptr;
}

std::string YamlNode::shown() const {
  switch (kind) {
    case Kind::map:
      return "a map";
    case Kind::list:
      return "a list";
    case Kind::scalar:
      return fmt::format("'{}'", text);
    case Kind::null:
      break;
  }
  return "nothing";
}

std::optional<YamlNode> parse_yaml(const std::string& text, const std::string& file, Errors& errors) {
  std::istringstream stream(text);
  TreeBuilder builder(file, errors);
  try {
    YAML::Parser parser(stream);
    const bool any = parser.HandleNextDocument(builder);
    if (const YAML::Mark& quote = builder.last_quote();
        !is_closed(text, static_cast<std::size_t>(quote.pos))) {
      throw YAML::ParserException(quote, "this quote is not closed");
    }
    if (!any) return builder.take_root();
    if (TreeBuilder second(file, errors); parser.HandleNextDocument(second)) {
      errors.add(second.take_root().where, "", "a second document; a graph file holds one");
    }
    return builder.take_root();
  } catch (const YAML::Exception& e) {
    errors.add({file, e.mark.line + 1, e.mark.column + 1}, "", "not valid YAML: " + e.msg);
    return std::nullopt;
  }
}

std::string doc_text(const YamlNode& map) {
  const YamlNode* doc = map.find("doc");
  if (!doc) return {};
  const auto begin = doc->text.find_first_not_of(" \n");
  if (begin == std::string::npos) return {};
  return doc->text.substr(begin, doc->text.find_last_not_of(" \n") - begin + 1);
}

void check_doc(const YamlNode& map, std::string_view subject, Errors& errors) {
  const YamlNode* doc = map.find("doc");
  if (doc && !doc->is_scalar()) {
    errors.add(doc->where, subject, fmt::format("doc: expected text, found {}", doc->shown()));
  }
}

bool check_keys(const YamlNode& map, const std::vector<std::string>& known, std::string_view subject,
                Errors& errors) {
  bool all_known = true;
  for (const YamlMember& m : map.members) {
    if (std::find(known.begin(), known.end(), m.key) != known.end()) continue;
    errors.add(m.where, subject, unknown_name("key", m.key, known));
    all_known = false;
  }
  return all_known;
}

void merge_maps(YamlNode& base, const YamlNode& patch, int depth) {
  for (const YamlMember& member : patch.members) {
    YamlMember* target = base.member(member.key);
    if (member.value.is_null()) {
      std::erase_if(base.members, [&](const YamlMember& m) { return m.key == member.key; });
    } else if (!target) {
      base.members.push_back(member);
    } else if (depth > 0 && target->value.is_map() && member.value.is_map()) {
      merge_maps(target->value, member.value, depth - 1);
    } else {
      *target = member;
    }
  }
}

}  // namespace flow::config
