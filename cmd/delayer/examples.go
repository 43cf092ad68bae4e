package main

// examples end the help of a command, by its name. "" is the program.
var examples = map[string][]string{
	"": {
		"delayer send --key jobs --delay 10s --body hello",
		"delayer status --watch",
		"delayer help messages retry",
	},
	"send": {
		"delayer send --key jobs --delay 90s --body hello",
		"delayer send --exchange orders --key order.expired --delay 2d --body @order.json --content-type application/json",
		"delayer send --key jobs --at 2027-01-31T18:00 --message-id report-2027-01 --body -",
	},
	"cancel":   {"delayer cancel d2.f3Yx"},
	"postpone": {"delayer postpone d2.f3Yx 2d", "delayer postpone d2.f3Yx --at 2027-01-31T18:00"},
	"status":   {"delayer status", "delayer status --output json"},
	"messages": {"delayer messages list", "delayer messages retry orders.parked --dry-run"},
	"messages list": {
		"delayer messages list",
		"delayer messages list orders.parked --limit 0",
	},
	"messages show":   {"delayer messages show orders.parked --id order-17"},
	"messages retry":  {"delayer messages retry --exchange orders", "delayer messages retry orders.parked --dry-run"},
	"messages export": {"delayer messages export orders.parked --out parked.jsonl"},
	"messages purge":  {"delayer messages purge orders.parked --id order-17"},
	"topology": {
		"delayer topology print --backend fixedtiers",
		"delayer topology verify --config delayer.yaml",
	},
	"topology print":  {"delayer topology print --output definitions"},
	"topology apply":  {"delayer topology apply --config delayer.yaml"},
	"topology verify": {"delayer topology verify --config delayer.yaml --management http://localhost:15672"},
	"topology remove": {"delayer topology remove --config delayer.yaml"},
	"serve":           {"delayer serve --config delayer.yaml --listen :8080"},
	"outbox":          {"delayer outbox migrate", "delayer outbox run --config delayer.yaml", "delayer outbox status"},
	"health":          {"delayer health :8080"},
	"migrate": {
		"delayer migrate assess --config delayer.yaml",
		"delayer migrate status --config delayer.yaml",
	},
}
