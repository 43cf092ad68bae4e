package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// BenchmarkHTTP measures how many messages a second go through `delayer serve` by HTTP (msg/s),
// from clients of this process that keep their connections: one message a request, and a hundred.
func BenchmarkHTTP(b *testing.B) {
	url, prefix := rabbittest.Broker(b).URL(), rabbittest.Prefix(b)
	queue := prefix + "-queue"
	ch := channel(b, url)
	_, err := ch.QueueDeclare(queue, true, false, false, false, nil)
	require.NoError(b, err)
	b.Cleanup(func() { _, _ = ch.QueueDelete(queue, false, false, false) })
	message := fmt.Sprintf(`{"key": %q, "delay": "1h", "text": %q, "properties": {"content_type": "text/plain"}}`, queue, strings.Repeat("x", 200))
	for _, backend := range []string{"binaryladder", "controller"} {
		config := configFile(b, fmt.Sprintf("url: %s\nprefix: %s-%s\nbackend: %s\nserve: {http: {listen: 127.0.0.1:0}}\n", url, prefix, backend, backend))
		s := serve(b, "serve", "--config", config)
		base := "http://" + rabbittest.Next(b, s.http)
		b.Run("backend="+backend+"/one", func(b *testing.B) { flood(b, base+"/v1/messages", message, 1) })
		b.Run("backend="+backend+"/hundred", func(b *testing.B) {
			const many = 100
			flood(b, base+"/v1/messages/batch", `{"messages": [`+strings.Repeat(message+",", many-1)+message+`]}`, many)
		})
		require.Equal(b, exitOK, s.stop())
		status, _, stderr := command(context.Background(), b, "topology", "remove", "--config", config, "--force", "--prefix", prefix+"-"+backend)
		require.Equal(b, exitOK, status, stderr)
	}
}

// flood sends requests of so many messages each.
func flood(b *testing.B, address, body string, messages int) {
	b.Helper()
	const clients = 64
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer client.CloseIdleConnections()
	post := func() error {
		request, err := http.NewRequestWithContext(b.Context(), http.MethodPost, address, bytes.NewBufferString(body))
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", "application/json")
		answer, err := client.Do(request)
		if err != nil {
			return err
		}
		defer answer.Body.Close() //nolint:errcheck // it is read
		if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusCreated {
			return fmt.Errorf("%s %.500s %w", answer.Status, text, err)
		}
		return nil
	}
	require.NoError(b, post(), "the destination is bound")
	b.SetParallelism(clients / 2)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := post(); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N*messages)/b.Elapsed().Seconds(), "msg/s")
}
