package api

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/delayer-go/delayer"
)

// A Problem is an error as clients see it: application/problem+json, as of RFC 9457.
type Problem struct {
	Title       string `json:"title" doc:"What the status means"`
	Status      int    `json:"status" example:"422"`
	Kind        string `json:"kind" example:"out_of_range" doc:"What went wrong, for programs"`
	Detail      string `json:"detail" doc:"What went wrong, for people"`
	SafeToRetry bool   `json:"safe_to_retry" doc:"Nothing was stored for certain, or doing it again does no harm: the same request cannot deliver a message twice. Whether it would succeed is another question"`
	ID          string `json:"id,omitempty" doc:"Of the message, if it may be stored: the message id with which to try again"`
	Ticket      string `json:"ticket,omitempty" doc:"Of the message, if it may be stored: to cancel it"`

	headers http.Header
}

type kind struct {
	name   string
	status int
	after  time.Duration // after which another attempt makes sense
	detail string        // said in place of the cause, which is about the broker and the machines, and not for clients; or ""
}

const retryAfter = "Retry-After"

const later = 5 * time.Second

// Kinds beside those of package delayer, or of several of those.
var (
	unauthorized = kind{name: "unauthorized", status: http.StatusUnauthorized}
	forbidden    = kind{name: "forbidden", status: http.StatusForbidden}
	busy         = kind{name: "busy", status: http.StatusServiceUnavailable, after: later}
	noSuchPath   = kind{name: "no_such_path", status: http.StatusNotFound}
	invalid      = kind{name: "invalid", status: http.StatusUnprocessableEntity}
	internal     = kind{name: "internal", status: http.StatusInternalServerError, detail: "an error of the server; its log says more"}
	unavailable  = kind{name: "unavailable", status: http.StatusServiceUnavailable, after: later, detail: "the broker cannot be reached"}
)

// kinds are those of package delayer. The first that an error is of counts.
var kinds = []struct {
	of error
	kind
}{
	// Refused comes before unknown, which it may be too. The chain of what is unknown may have another kind.
	{delayer.ErrRefused, kind{name: "refused", status: http.StatusServiceUnavailable, after: later}},
	{delayer.ErrUnknown, kind{name: "unknown", status: http.StatusGatewayTimeout, detail: "the message may be stored: the broker's confirm did not come in time"}},
	{delayer.ErrUnroutable, kind{name: "unroutable", status: http.StatusUnprocessableEntity}},
	{delayer.ErrNotSent, unavailable},
	{delayer.ErrUnavailable, unavailable},
	{delayer.ErrClosed, unavailable},
	{delayer.ErrInvalid, invalid},
	{delayer.ErrOutOfRange, kind{name: "out_of_range", status: http.StatusUnprocessableEntity}},
	{delayer.ErrTicket, kind{name: "ticket", status: http.StatusNotFound}},
	{delayer.ErrTooLate, kind{name: "too_late", status: http.StatusConflict}},
	{delayer.ErrConflict, kind{name: "conflict", status: http.StatusServiceUnavailable, after: later}},
	{delayer.ErrNotFound, kind{name: "conflict", status: http.StatusServiceUnavailable, after: later}},
	{delayer.ErrAccess, kind{name: "access", status: http.StatusForbidden, detail: "the broker denies this to the user of delayer serve"}},
	{errors.ErrUnsupported, kind{name: "unsupported", status: http.StatusNotImplemented}},
}

// problem is what is said of an error. Of one that guarantees that nothing was stored, safe is
// true.
func (k kind) problem(safe bool, detail string) *Problem {
	p := &Problem{Title: http.StatusText(k.status), Status: k.status, Kind: k.name, Detail: cmp.Or(k.detail, detail), SafeToRetry: safe, headers: http.Header{}}
	if k.after > 0 {
		p.headers.Set(retryAfter, strconv.Itoa(int(k.after.Seconds())))
	}
	if k == unauthorized {
		p.headers.Set("WWW-Authenticate", `Bearer realm="delayer"`)
	}
	return p
}

func (k kind) problemf(format string, args ...any) *Problem {
	return k.problem(true, fmt.Sprintf(format, args...))
}

// problem is what clients are told of an error of the Delayer.
func (a *API) problem(err error) *Problem {
	for _, k := range kinds {
		if errors.Is(err, k.of) {
			return k.problem(delayer.SafeToRetry(err), strings.TrimPrefix(err.Error(), "delayer: "))
		}
	}
	a.Log.Error("a request failed", "error", err)
	return internal.problem(delayer.SafeToRetry(err), "")
}

// again says that doing the same again does no harm.
func (p *Problem) again() *Problem {
	p.SafeToRetry = true
	return p
}

// Error is the detail.
func (p *Problem) Error() string { return p.Detail }

// GetStatus implements [huma.StatusError].
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders implements [huma.HeadersError].
func (p *Problem) GetHeaders() http.Header { return p.headers }

// ContentType implements [huma.ContentTypeFilter].
func (p *Problem) ContentType(string) string { return problemType }

const problemType = "application/problem+json"

// ofHuma turns what huma says of a request that it could not read into a Problem. Nothing of the
// request is quoted.
func ofHuma(_ huma.Context, _ string, v any) (any, error) {
	m, is := v.(*huma.ErrorModel)
	if !is {
		return v, nil
	}
	k := kind{name: "invalid", status: m.Status}
	switch m.Status {
	case http.StatusRequestTimeout:
		k.name = "too_slow"
	case http.StatusRequestEntityTooLarge:
		k.name = "too_large"
	case http.StatusUnsupportedMediaType:
		k.name = "media_type"
	case http.StatusInternalServerError:
		k = internal
	}
	detail := m.Detail
	if len(m.Errors) > 0 {
		detail = m.Errors[0].Location + ": " + m.Errors[0].Message
		if strings.HasSuffix(detail, ".delay: expected string") {
			detail += ", with a unit: 30s, 90m or 2d"
		}
	}
	return k.problem(true, detail), nil
}

// write answers with a problem where huma does not.
func write(w http.ResponseWriter, p *Problem) {
	for name := range p.headers {
		w.Header().Set(name, p.headers.Get(name))
	}
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}
