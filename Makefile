# Each target makes what it needs from this checkout alone; an up-to-date environment costs nothing.
PYTHON ?= python3
# The MLX backend wheel of this machine: cpu, cuda12 or cuda13 on Linux, none on a Mac.
BACKEND ?= $(if $(filter Linux,$(shell uname -s)),cpu)

comma := ,
PIP = -m pip install --quiet --disable-pip-version-check --no-input
BASE := $(if $(BACKEND),.[$(BACKEND)],.)
DEV := .[dev$(if $(BACKEND),$(comma)$(BACKEND))]
STORE := build/demo-store

.DELETE_ON_ERROR:
.PHONY: help setup demo test thorough lint parity parity-torch browser cluster crash bench fuzz soak clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "%-14s%s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/dev.stamp ## Make .venv with all that developing needs

demo: .venv/base.stamp ## Warm samples/media with samples/tiny-siglip, show the store
	rm -rf $(STORE)
	.venv/bin/vcache warm samples/media --model samples/tiny-siglip --store $(STORE)
	.venv/bin/vcache stats --store $(STORE)

test: .venv/dev.stamp ## Run the tests, and the doctests of the package
	.venv/bin/python -m pytest -q -n auto

thorough: .venv/dev.stamp ## Run the larger forms of some tests
	.venv/bin/python -m pytest -q -m thorough tests

lint: .venv/dev.stamp ## Check style, format, types, layers and spelling
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports --no-logo
	.venv/bin/codespell

# Warnings of the libraries compared with are theirs, not failures of ours: -W default.
parity: .venv-parity/parity.stamp ## Compare with transformers (no torch) and mlx-vlm
	.venv-parity/bin/python -m pytest -q -s -W default tests/parity

parity-torch: .venv-parity-torch/parity-torch.stamp ## Compare with transformers' torch towers
	.venv-parity-torch/bin/python -m pytest -q -s -W default tests/parity_torch

browser: .venv-browser/browser.stamp ## Open the HTML report in the system's Chromium
	tests/browser/ensure-chromium
	.venv-browser/bin/python -m pytest -q -W default tests/browser

cluster: .venv-cluster/cluster.stamp ## Try an S3 server and a Ray cluster, both on loopback
	.venv-cluster/bin/python -m pytest -q -W default tests/remote
	.venv-cluster/bin/python -m pytest -q -W default tests/ray

crash: .venv/dev.stamp ## Kill each command at each call, fail each call, cut the power: minutes
	.venv/bin/python -m tests.crash.matrix shim
	.venv/bin/python -m tests.crash.matrix power
	.venv/bin/python -m tests.crash.matrix errno
	$(if $(shell command -v strace),.venv/bin/python -m tests.crash.matrix strace)

bench: .venv/dev.stamp ## Measure against peers, write tests/bench/RESULTS.md
	.venv/bin/python tests/bench/run.py

MINUTES ?= 10

fuzz: .venv/dev.stamp ## Compare our reader with others on MINUTES of hostile files
	.venv/bin/python -m tests.fuzz.run --minutes $(MINUTES)

soak: .venv/dev.stamp ## Warm, prune, verify and read one store at once for MINUTES
	.venv/bin/python -m tests.soak.run --minutes $(MINUTES)

clean: ## Remove all that these targets make
	rm -rf .venv .venv-browser .venv-cluster .venv-parity .venv-parity-torch build dist
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache

.venv/bin/python .venv-browser/bin/python .venv-cluster/bin/python .venv-parity/bin/python .venv-parity-torch/bin/python:
	$(PYTHON) -m venv $(@D:/bin=)

.venv/base.stamp: pyproject.toml | .venv/bin/python
	.venv/bin/python $(PIP) -e '$(BASE)'
	@touch $@

.venv/dev.stamp: pyproject.toml | .venv/bin/python
	.venv/bin/python $(PIP) -e '$(DEV)'
	@touch .venv/base.stamp $@

.venv-cluster/cluster.stamp: pyproject.toml | .venv-cluster/bin/python
	.venv-cluster/bin/python $(PIP) -e '.[cluster]'
	@touch $@

.venv-browser/browser.stamp: pyproject.toml | .venv-browser/bin/python
	.venv-browser/bin/python $(PIP) -e '.[browser]'
	@touch $@

.venv-parity/parity.stamp: pyproject.toml | .venv-parity/bin/python
	.venv-parity/bin/python $(PIP) -e '.[parity]'
	@touch $@

.venv-parity-torch/parity-torch.stamp: pyproject.toml | .venv-parity-torch/bin/python
	.venv-parity-torch/bin/python $(PIP) -e '.[parity-torch]'
	@touch $@
