# Sourced by scripts/test and scripts/soak: runs a stage, counts what passed and what failed.
passed=0
failed=0
started_s=$SECONDS

stage() { printf '\n== %s (at %ds)\n' "$1" $((SECONDS - started_s)); }

count() {
  passed=$((passed + $1))
  failed=$((failed + $2))
}

# run_one NAME COMMAND...: one test that is a command.
run_one() {
  local name=$1
  shift
  if "$@"; then count 1 0; else echo "failed: $name"; count 0 1; fi
}

# run_ctest PRESET TIMEOUT_S [LABEL]: builds the preset and runs all its tests, or those with the label.
run_ctest() {
  local preset=$1 timeout_s=$2 label=${3:-} log=build/$1/ctest.log bad total
  if ! scripts/build "$preset" ${label:+"${label}_tests"}; then
    echo "failed: the $preset build"
    count 0 1
    return
  fi
  # The thread sanitizer of g++ 12 cannot work with the address layouts of some newer kernels.
  local fixed_layout=()
  if [[ $preset == tsan ]] && setarch "$(uname -m)" --addr-no-randomize true 2>/dev/null; then
    fixed_layout=(setarch "$(uname -m)" --addr-no-randomize)
  fi
  # One more than there are cores: tests wait for processes and clocks now and then.
  "${fixed_layout[@]}" ctest --test-dir "build/$preset" --output-on-failure --no-tests=error \
    --parallel $(($(nproc) + 1)) --timeout "$timeout_s" ${label:+--label-regex "$label"} >"$log" 2>&1
  # The log ends with "X% tests passed, F tests failed out of N".
  read -r bad total < <(sed -nE 's/.*tests passed, ([0-9]+) tests? failed out of ([0-9]+).*/\1 \2/p' \
                            "$log" | tail -1)
  if [[ -z ${total:-} ]]; then
    tail -40 "$log"
    echo "failed: ctest of $preset did not come to an end"
    count 0 1
    return
  fi
  # Only what failed, with its output.
  ((bad == 0)) || grep -vE '^ *Start +[0-9]+:|\. +Passed +[0-9]|^Internal ctest|^Test project' "$log"
  echo "$((total - bad)) passed, $bad failed"
  count $((total - bad)) "$bad"
}

# run_fuzzers SECONDS [--seed=N]: builds the fuzzers and runs each for so long.
run_fuzzers() {
  local log=build/asan/fuzz.log
  if ! scripts/build asan; then
    echo "failed: the build of the fuzzers"
    count 0 1
    return
  fi
  scripts/fuzz "$@" | tee "$log"
  count "$(grep -c '^ok ' "$log")" "$(grep -c '^failed ' "$log")"
}

finish() {
  printf '\n%d s\n%d passed, %d failed\n' $((SECONDS - started_s)) "$passed" "$failed"
  ((failed == 0))
}
