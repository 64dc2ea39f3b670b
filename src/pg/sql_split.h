// A script into its statements, and what a statement does to its session as far as its text tells.
//
// Statements end at a `;` outside quotes, comments, parentheses and function bodies. The text of
// each is kept as written but for blanks around it; what holds only blanks and comments is left
// out. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace noetl::pg {

std::vector<std::string> SplitStatements(std::string_view script);

struct StatementTraits {
  // Reads rows: SELECT, WITH, VALUES, TABLE, SHOW, EXPLAIN.
  bool reads = false;
  // BEGIN, COMMIT, ROLLBACK and their kin, but not savepoints.
  bool controls_transaction = false;
  // The server refuses it inside a transaction: VACUUM, CREATE DATABASE, CREATE INDEX CONCURRENTLY.
  bool outside_transaction = false;
  // Leaves something in the session: SET, LISTEN, temporary tables, prepared statements, locks.
  // Called functions may do the same unseen, so code that may hide it (DO, CALL) counts too.
  bool touches_session = false;
};
StatementTraits TraitsOf(std::string_view statement);

// "name" with quotes inside doubled; 'text' with quotes and backslashes safe in any setting.
std::string QuoteIdentifier(std::string_view name);
std::string QuoteLiteral(std::string_view text);

}  // namespace noetl::pg
