// What a compiled template refers to, found without running it.
#pragma once

#include "expr/ast.h"
#include "expr/template.h"

namespace noetl::expr {

// `expression` or `block` is the program; the other is null.
Analysis Analyse(const Node* expression, const Block* block);

}  // namespace noetl::expr
