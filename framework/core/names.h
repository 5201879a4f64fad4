// Names: what may be one, which known one is meant, which ones a pattern selects.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace flow {

/// Letters, digits, '_' and '-', beginning with a letter or '_'.
bool is_name(std::string_view text);
/// A name that expressions can use: as is_name, without '-'.
bool is_identifier(std::string_view text);
/// As is_name, but may begin with a digit or '-': the instance of a repeated stage.
bool is_instance_key(std::string_view text);

/// Whether `pattern` selects `name`: '*' stands for any characters within one part of a dotted name, '**'
/// for any characters.
bool matches(std::string_view pattern, std::string_view name);

/// The candidate that was probably meant (by edit distance); empty when none is near.
std::string_view nearest(std::string_view name, const std::vector<std::string>& candidates);

/// "no option 'max_ngrm'; did you mean 'max_ngram'?", or with the list of candidates when none is near. With
/// an owner: "no output 'idz' in OWNER; ...".
std::string unknown_name(std::string_view kind, std::string_view name,
                         const std::vector<std::string>& candidates, std::string_view owner = {});

/// The `name` members of a list.
template <class List>
std::vector<std::string> names_of(const List& list) {
  std::vector<std::string> names;
  for (const auto& item : list) {
    if constexpr (requires { item->name; }) {
      names.push_back(item->name);
    } else {
      names.push_back(item.name);
    }
  }
  return names;
}

}  // namespace flow
