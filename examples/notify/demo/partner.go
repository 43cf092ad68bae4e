package main

import (
	"net/http"
	"net/http/httptest"
	"strconv"
)

// startPartner starts the service that is told of orders, on a free port. answer is its status.
func startPartner(answer func(order int64, attempt int) (status int)) *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders/{id}", func(w http.ResponseWriter, r *http.Request) {
		order, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
		attempt, unread := strconv.Atoi(r.Header.Get("Attempt"))
		if err != nil || unread != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		status := answer(order, attempt)
		if status == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "86400") // longer than any ladder here
		}
		w.WriteHeader(status)
	})
	return httptest.NewServer(mux)
}
