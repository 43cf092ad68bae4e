package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/delayer-go/delayer/retry"
)

// client gives up a call long before retry.Config.HandlerTimeout.
var client = &http.Client{Timeout: 10 * time.Second}

// A service is the other service, which is told of orders.
type service struct{ url string }

// notify posts an order. The call may be repeated although the service has answered, so it carries
// a key by which the service recognises a repeated call.
func (s service) notify(ctx context.Context, o order, key string, attempt int) error {
	body := strings.NewReader(fmt.Sprintf(`{"order": %d, "customer": %q}`, o.id, o.customer))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("%s/orders/%d", s.url, o.id), body)
	if err != nil {
		return retry.Permanent(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	req.Header.Set("Attempt", strconv.Itoa(attempt))
	answer, err := client.Do(req)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<20)) // so that the connection can be used again
	_ = answer.Body.Close()
	return failure(answer)
}

// failure converts an answer to an error for package retry.
func failure(answer *http.Response) error {
	err := errors.New(answer.Status)
	switch code := answer.StatusCode; {
	case code < 300:
		return nil
	case code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable:
		if seconds, bad := strconv.Atoi(answer.Header.Get("Retry-After")); bad == nil {
			return retry.After(err, time.Duration(seconds)*time.Second)
		}
		return err
	case code >= 500 || code == http.StatusRequestTimeout:
		return err
	default: // the order is at fault: it will be the next time
		return retry.Permanent(err)
	}
}
