// What the machine itself can do: the floors under the figures of embedded_bench.
#pragma once

#include <string>

namespace noetl::bench {

// Writing and syncing one page, p50.
double SyncUs(const std::string& directory);
// Rows of one column with as many bytes as an event, 2,000 a transaction, synced.
double RawInsertsPerSecond(const std::string& directory);
// Events of small units through the store, 2,000 a transaction.
double AppendsPerSecond(const std::string& directory);
// Rows of the event table, every column looked at, nothing parsed.
double RawReadsPerSecond(const std::string& directory);
// Starting a program that does nothing.
double ProcessStartMs();

}  // namespace noetl::bench
