# Everything a user or a contributor does, on a fresh Debian 12 with nothing but make and git.
# Each target first installs what is missing (scripts/setup), which takes no time when nothing is.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# One build after the other; ninja uses the cores.
.NOTPARALLEL:

# The program that `make run` uses.
NOETL ?= build/release/noetl
# Which files `make lint` gives to clang-tidy: all, or those that differ from the last commit.
LINT_FILES ?= all

.PHONY: help setup build run up test soak bench lint format clean

help: ## print this list
	@echo "noetl - durable workflows from YAML playbooks"
	@echo
	@sed -nE 's/^([a-z]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 16

setup: ## install missing Debian packages (asks sudo when not root)
	@scripts/setup

build: setup ## build the program: build/release/noetl
	@scripts/build release noetl

run: build ## run the tour: steps, branches, a loop, retries and a sub-playbook in three seconds
	@$(NOETL) run examples/tour.yaml --data build/tour

up: build ## start server, worker and page on http://127.0.0.1:8082 (Ctrl-C stops them)
	@$(NOETL) up --data build/up

test: setup ## all tests: release, sanitizers, a short fuzz run
	@scripts/test

soak: setup ## the long tests: an hour of fuzzing, threads, more properties, planted bugs
	@scripts/soak

bench: build ## run the benchmarks
	@scripts/bench

lint: setup ## check format, clang-tidy and the rules of the tree (LINT_FILES=changed for a quick look)
	@scripts/lint $(LINT_FILES)

format: setup ## format the sources in place
	@find src bench -name '*.h' -o -name '*.cc' | xargs clang-format-19 -i

clean: ## remove everything that was built
	@rm -rf build
