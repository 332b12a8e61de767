# make          build ./build/herdr-link for this machine
# make demo     build it and show two agents at work in a simulated Herdr
# make test     all tests, with the race detector where a C compiler is there
# make lint     formatting, vet on every platform, staticcheck (if the Go module proxy gives it)
# make probe    drive the built binary over stdio, as a host would
# make check    test, lint and probe: all that must hold before a commit
# make bench    the measurements of docs/performance.md
# make fuzz     every fuzz target, FUZZTIME each
# make crash    kill and fail mesh at each step of each operation, those of its lock too
# make vuln     known vulnerabilities (needs the Go vulnerability database)
# make dist     archives, npm packages, SBOM and checksums for all platforms, into ./dist
# make dist-test  that dist comes out the same elsewhere, byte for byte, and is complete
# make npm-test   the npm packages of ./dist: pack, install, run, probe
# make sdk-test   the official MCP clients (npm and PyPI) against the built binary

BINARY  := build/herdr-link$(shell go env GOEXE)
GOBUILD := CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -buildid='
TOOL    := go tool -modfile=tools/go.mod
CC_HERE := $(firstword $(foreach c,$(CC) gcc clang,$(shell command -v $(c) 2>/dev/null)))
# Tests wait more than they work. Their binaries are compiled as the tests of the root compile the
# server, and the same in each clone; lint vets.
GOTEST  := $(if $(CC_HERE),CGO_ENABLED=1 go test -race,CGO_ENABLED=0 go test) -trimpath -ldflags '-s -w' -vet=off -shuffle=on -p 2 -parallel 4
FUZZTIME := 30s
CROSSVET := CGO_ENABLED=0 go vet -trimpath ./... # compiles as dist does, which then need not

.PHONY: all demo test lint vet staticcheck probe check bench fuzz crash vuln $(BINARY)
all: $(BINARY)
$(BINARY): # phony: go build knows best what is stale
	@$(GOBUILD) -o $@ .
demo: $(BINARY)
	@$(BINARY) demo
test:
	@$(if $(CC_HERE),true,.ci/skip 'the race detector: there is no C compiler')
	@command -v node >/dev/null || .ci/skip 'the adapters for Pi and OpenCode: node is not here'
	$(GOTEST) ./...
lint: vet staticcheck
vet:
	@test -z "$$(gofmt -s -l .)" || { gofmt -s -d .; exit 1; }
	@test "$$(go list -m all | wc -l)" -eq 1 || { echo 'go.mod must require nothing'; exit 1; }
	go vet ./...
	GOOS=darwin $(CROSSVET)
	GOOS=windows $(CROSSVET)
	go vet -C tools ./...
# It is fetched first, so that a failure after that is one of the code.
staticcheck:
	@.ci/fetch 'the Go module proxy' go list -C tools -deps honnef.co/go/tools/cmd/staticcheck || { test $$? -eq 75; exit; }; \
	set -x; $(TOOL) staticcheck ./... && cd tools && go tool staticcheck ./...
probe: $(BINARY)
	$(BINARY) probe --patience 1m
check: test lint probe
bench:
	CGO_ENABLED=0 go test -run '^$$' -bench . -benchtime 1x -count 1 .
fuzz:
	@for p in $$(go list ./...); do for f in $$(go test -list '^Fuzz' $$p | grep '^Fuzz'); do \
		go test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$p || exit 1; done; done
crash:
	CGO_ENABLED=0 go test -count=1 -run Crash $(addprefix ./mesh/,controller handoff lane ledger lock store verify) -every-step
vuln:
	$(TOOL) govulncheck ./...

# What could change the bytes of a release is set here, so that they are the same everywhere.
DIST      := dist
PLATFORMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
RELEASE   := GOFLAGS= GOEXPERIMENT= GOFIPS140=off GOWORK=off GOAMD64=v1 GOARM64=v8.0

.PHONY: dist dist-clean dist-test npm-test sdk-test $(PLATFORMS:%=dist-%)
dist: $(PLATFORMS:%=dist-%)
	@GOFLAGS= CGO_ENABLED=0 go run -C tools -trimpath ./dist -root '$(CURDIR)' -out '$(abspath $(DIST))' -go-license "$$(go env GOROOT)/LICENSE"
$(PLATFORMS:%=dist-%): dist-%: dist-clean
	@$(RELEASE) GOOS=$(*D) GOARCH=$(*F) $(GOBUILD) -buildvcs=true -o '$(abspath $(DIST))/bin/$*/' .
dist-clean:
	@cd '$(abspath $(DIST))' 2>/dev/null && rm -rf bin npm herdr-link-* SHA256SUMS release-notes.md || true
dist-test:
	go vet -C tools ./dist
	go test -C tools -count=1 -timeout 20m ./dist
npm-test:
	npm/run
sdk-test: $(BINARY)
	sdktest/run
