package metrics_test

import (
	"context"
	"log"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/metrics"
)

// A program whose Delayer is counted, and scraped at /metrics.
func Example() {
	m := metrics.New()
	prometheus.MustRegister(m)
	options := delayer.Options{URL: "amqp://guest:guest@localhost:5672/", Observer: m.Observer()}
	d, err := backend.Open(context.Background(), backend.Config{Options: options})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	http.Handle("/metrics", promhttp.Handler())
	log.Fatal(http.ListenAndServe("127.0.0.1:9090", nil))
}
