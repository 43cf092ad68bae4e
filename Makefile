# Type `make help`.
.DEFAULT_GOAL := help
.PHONY: help demo test unit chart simulate test-matrix faults bench bench-go results fuzz lint vuln fmt broker postgresql install-rabbitmq install-postgresql install-plugin install-chromium install-checkers install-clients install-faketime

# Run at an exact version and outside of our module, whose requirements it must not become.
GOLANGCI_LINT := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

# The packages that have benchmarks: to build the tests of all others takes longer than to run
# these.
BENCHMARKED = $$(grep -rl --include='*_test.go' '^func Benchmark' . | xargs -n 1 dirname | sort -u)

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "Tests and benchmarks need a RabbitMQ: the one at AMQP_URL, else one in Docker"
	@echo "(DELAYER_RABBITMQ_IMAGE), else a private node of the rabbitmq-server on this machine."
	@echo "DELAYER_BROKER=given|docker|node forces one of them; none runs without."
	@echo "Tests of the outbox need a PostgreSQL: the one at POSTGRES_URL, else a private cluster of the"
	@echo "server on this machine; where there is none they are skipped."

demo: ## show Delayer at work: a broker, delayer serve, its page, and lines to paste
	@AMQP_URL= scripts/install-rabbitmq.sh --missing
	@go build -o bin/ ./cmd/demo
	@exec bin/demo

test: broker postgresql ## run all tests on a real broker and database, with the race detector
	@scripts/test.sh $(TESTFLAGS)

unit: ## run the tests that need no broker, in under a minute
	@scripts/test.sh unit $(TESTFLAGS)

chart: ## lint and render the Helm chart, and hand what it renders to delayer serve; its module fetches Helm's packages
	go -C internal/lab/tests/chart test -count=1 $(TESTFLAGS) .

simulate: ## run the controller's wheel through SEEDS (100000) runs of a model of RabbitMQ, on all cores
	GOGC=400 go test ./backend/controller/internal/logsim -run '^TestSimulate$$' -timeout 0 -v -args -seeds "$$(printf %.0f '$(or $(SEEDS),100000)')" $(SIMULATEFLAGS)

test-matrix: ## run conformance and short faults on each RabbitMQ series, in Docker (SERIES='4.0 4.3' SUITES=faults IMAGE=)
	@SERIES='$(SERIES)' SUITES='$(SUITES)' IMAGE='$(IMAGE)' scripts/test-matrix.sh

faults: broker ## break everything around every backend for an hour, and write docs/results/faults
	go run ./cmd/faults --out docs/results/faults $(FAULTSFLAGS)

bench: broker ## compare the strategies on a real broker, in about three minutes
	go run ./cmd/delayer-bench --quick $(BENCHFLAGS)

bench-go: broker ## run the Go benchmarks: time and allocations of a publish
	go test -vet=off -run '^$$' -bench . -benchmem -p 1 $(BENCHFLAGS) $(BENCHMARKED)

results: ## measure docs/results and the tables of docs/measured.md again, for hours, in Docker (SERIES='3.10 4.3' PARTS= IMAGE= FLAGS= REPEAT=)
	@SERIES='$(SERIES)' PARTS='$(PARTS)' IMAGE='$(IMAGE)' FLAGS='$(FLAGS)' REPEAT='$(REPEAT)' scripts/results.sh

lint: ## check the code with golangci-lint, and where the pages' links lead
	$(GOLANGCI_LINT) run
	@scripts/links.sh

vuln: ## look for known vulnerabilities in what is called, where their database can be reached
	@scripts/vuln.sh $(VULNFLAGS)

fuzz: ## run every fuzz test for FUZZTIME (1m)
	@scripts/fuzz.sh $(FUZZFLAGS)

fmt: ## format the code
	$(GOLANGCI_LINT) fmt

broker: ## install RabbitMQ if there is neither AMQP_URL, nor an image in Docker, nor a server
	@scripts/install-rabbitmq.sh --missing

install-rabbitmq: ## install rabbitmq-server from the system's packages
	@scripts/install-rabbitmq.sh

postgresql: ## install PostgreSQL if there is neither POSTGRES_URL nor a server
	@scripts/install-postgresql.sh --missing

install-postgresql: ## install PostgreSQL from the system's packages
	@scripts/install-postgresql.sh

install-plugin: ## fetch and check the x-delayed-message plugin (SERIES=4.0 IMAGE=1 FOLDER= MIRROR= FILE= DIGEST=)
	@SERIES='$(SERIES)' IMAGE='$(IMAGE)' FOLDER='$(FOLDER)' MIRROR='$(MIRROR)' FILE='$(FILE)' DIGEST='$(DIGEST)' scripts/install-plugin.sh

install-chromium: ## install Chromium from the system's packages: tests look at pages in it
	@scripts/install-chromium.sh

install-checkers: ## install from npm what the pages of delayer serve are checked with: axe-core
	@scripts/install-checkers.sh

install-clients: ## install clients of RabbitMQ in other languages: tests run examples/clients with them
	@scripts/install-clients.sh

install-faketime: ## install libfaketime from the system's packages: tests put a broker's clock forward
	@scripts/install-faketime.sh
