package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/delayer-go/delayer/internal/app/tokens"
)

const retryAfter = "Retry-After"

// usualBodyWithin is how long the body of a request may take to come.
const usualBodyWithin = 10 * time.Second

// ServeHTTP lets a request in, and measures it.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	answer := &recorder{ResponseWriter: w}
	if r.ContentLength != 0 { // where nobody reads the body, net/http does, before the answer goes out
		_ = http.NewResponseController(w).SetReadDeadline(began.Add(a.bodyWithin)) // a recorder of a test has none
	}
	_, route := a.mux.Handler(r)
	defer func() { a.Answered(cmp.Or(route, "other"), cmp.Or(answer.status, http.StatusOK), time.Since(began)) }()
	switch {
	case route == "":
		a.nowhere(answer, r)
	case !strings.Contains(route, " /v1/"):
		a.mux.ServeHTTP(answer, r) // nothing of these needs a token or a broker
	default:
		a.enter(answer, r, route)
	}
}

// nowhere answers as the mux would, with a problem.
func (a *API) nowhere(w http.ResponseWriter, r *http.Request) {
	as := &recorder{ResponseWriter: discard{w.Header()}}
	a.mux.ServeHTTP(as, r)
	if as.status == http.StatusMethodNotAllowed {
		write(w, noSuchMethod.problemf("%s is not possible here: %s is", r.Method, w.Header().Get("Allow")))
		return
	}
	write(w, noSuchPath.problemf("there is nothing here; /openapi.json says what there is"))
}

// enter lets a request of the API in, if its bearer may do that and there is room.
func (a *API) enter(w http.ResponseWriter, r *http.Request, route string) {
	token, problem := a.admit(r, route)
	if problem == nil {
		select {
		case a.slots <- struct{}{}:
			defer func() { <-a.slots }()
			problem = a.readBody(w, r)
		default:
			problem = busy.problemf("%d requests are under way, and no more are taken", a.cfg.MaxRequests)
		}
	}
	if problem != nil {
		write(w, problem)
		return
	}
	a.mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), bearerKey{}, token)))
}

// admit knows a request by its token. Without a file of tokens everybody may do all, who is on this
// machine: a page that a browser there shows is not.
func (a *API) admit(r *http.Request, route string) (*tokens.Token, *Problem) {
	if a.files.tokens == nil {
		if err := a.foreign.Check(r); err != nil || !here(r.Host) {
			return nil, forbidden.problemf("a page of another site, or another name of this machine: without tokens only requests to localhost are answered")
		}
		return tokens.Anybody(), nil
	}
	token := a.files.tokens.Bearer(r.Header.Get("Authorization"))
	if token == nil {
		return nil, unauthorized.problemf("write the header Authorization: Bearer and a token that is valid here")
	}
	if right, needed := rightOf[route]; needed && !token.Has(right) {
		return nil, forbidden.problemf("this token has not the right %q", right)
	}
	return token, nil
}

// here reports whether a request names this machine by its loopback. A page of another site can
// have a name that leads here.
func here(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	return loopback(host)
}

// readBody reads a body in full, up to the limit: a request whose head says that it is larger is
// not read at all.
func (a *API) readBody(w http.ResponseWriter, r *http.Request) *Problem {
	if r.Method != http.MethodPost && r.Method != http.MethodPatch {
		return nil
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != jsonType {
		return mediaType.problemf("write the header Content-Type: application/json")
	}
	limit := int64(a.cfg.MaxBody)
	if r.ContentLength > limit {
		return tooLarge.problemf("the request has %d bytes, at most %d are taken", r.ContentLength, limit)
	}
	var body bytes.Buffer
	body.Grow(int(max(r.ContentLength, 0)) + bytes.MinRead)
	_, err = body.ReadFrom(http.MaxBytesReader(w, r.Body, limit))
	var tooMuch *http.MaxBytesError
	switch {
	case errors.As(err, &tooMuch):
		return tooLarge.problemf("the request has more than %d bytes", limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return tooSlow.problemf("the request did not come within %s", a.bodyWithin)
	case err != nil:
		return malformed.problemf("the request breaks off")
	case body.Len() == 0:
		return malformed.problemf("the request has no body: write a JSON object")
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // else it would end the request's context
	r.Body = io.NopCloser(&body)
	return nil
}

// write answers with a problem.
func write(w http.ResponseWriter, p *Problem) {
	for name := range p.headers {
		w.Header().Set(name, p.headers.Get(name))
	}
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}

type bearerKey struct{}

// bearer is who sends a request that was let in.
func bearer(ctx context.Context) *tokens.Token { return ctx.Value(bearerKey{}).(*tokens.Token) }

// recorder remembers the status.
type recorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements [http.ResponseWriter].
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap is for [http.ResponseController].
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// discard takes the headers of an answer, and nothing else.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) WriteHeader(int)             {}
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
