package notify

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"time"
)

// A Call is one that the service got.
type Call struct {
	Order    int64
	Attempt  int
	Began    time.Time
	Answered time.Time
	Status   int
}

// A Partner is the service that is told of orders. It answers what its function says, and keeps account.
type Partner struct {
	server *httptest.Server
	answer func(order int64, attempt int) (status int)

	mu    sync.Mutex
	calls []Call
}

// NewPartner starts one on a free port.
func NewPartner(answer func(order int64, attempt int) (status int)) *Partner {
	p := &Partner{answer: answer}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders/{id}", p.serve)
	p.server = httptest.NewServer(mux)
	return p
}

func (p *Partner) serve(w http.ResponseWriter, r *http.Request) {
	c := Call{Began: time.Now()}
	c.Order, _ = strconv.ParseInt(r.PathValue("id"), 10, 64) // 0 is no order: the account says so
	c.Attempt, _ = strconv.Atoi(r.Header.Get("Attempt"))
	c.Status = p.answer(c.Order, c.Attempt)
	c.Answered = time.Now() // before it is: no retry may be counted as early for our own slowness
	p.mu.Lock()
	p.calls = append(p.calls, c)
	p.mu.Unlock()
	w.WriteHeader(c.Status)
}

// URL is its address.
func (p *Partner) URL() string { return p.server.URL }

// Calls returns all calls so far.
func (p *Partner) Calls() []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls)
}

// Close stops it.
func (p *Partner) Close() { p.server.Close() }
