# make          build ./build/herdr-link for this machine
# make demo     build it and show two agents at work in a simulated Herdr
# make test     all tests, with the race detector where a C compiler is there
# make lint     formatting, vet on every platform, staticcheck
# make probe    drive the built binary over stdio, as a host would
# make check    test, lint and probe: all that must hold before a commit
# make bench    the measurements of docs/performance.md
# make fuzz     every fuzz target, FUZZTIME each
# make vuln     known vulnerabilities (needs the Go vulnerability database)

BINARY  := build/herdr-link$(shell go env GOEXE)
GOBUILD := CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -buildid='
TOOL    := go tool -modfile=tools/go.mod
CC_HERE := $(firstword $(foreach c,$(CC) gcc clang,$(shell command -v $(c) 2>/dev/null)))
GOTEST  := $(if $(CC_HERE),CGO_ENABLED=1 go test -race,CGO_ENABLED=0 go test) -shuffle=on
FUZZTIME := 30s

.PHONY: all demo test lint probe check bench fuzz vuln $(BINARY)
all: $(BINARY)
$(BINARY): # phony: go build knows best what is stale
	@$(GOBUILD) -o $@ .
demo: $(BINARY)
	@$(BINARY) demo
test:
	$(GOTEST) ./...
lint:
	@test -z "$$(gofmt -s -l .)" || { gofmt -s -d .; exit 1; }
	@test "$$(go list -m all | wc -l)" -eq 1 || { echo 'go.mod must require nothing'; exit 1; }
	go vet ./...
	GOOS=darwin go vet ./...
	GOOS=windows go vet ./...
	$(TOOL) staticcheck ./...
probe: $(BINARY)
	$(BINARY) probe
check: test lint probe
bench:
	CGO_ENABLED=0 go test -run '^$$' -bench . -benchtime 1x -count 1 .
fuzz:
	@for p in $$(go list ./...); do for f in $$(go test -list '^Fuzz' $$p | grep '^Fuzz'); do \
		go test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$p || exit 1; done; done
vuln:
	$(TOOL) govulncheck ./...
