// Package api publishes by HTTP, through a Delayer. The types of its requests and answers are also
// what its description, as of OpenAPI 3.1, is made of.
//
// Huma reads and validates a request; [API.enter] knows tokens and limits but nothing of messages;
// an operation knows messages and nothing of HTTP.
package api

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"golang.org/x/sync/semaphore"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/tokens"
)

// Parts are what an API is made of, beside its configuration.
type Parts struct {
	Delayer delayer.Delayer      // the caller closes it
	Prefix  string               // of the Delayer
	Health  func(*http.ServeMux) // adds what is asked without a token: whether the process works
	// Answered is called for each request of the API that was answered. A route is a method and a
	// path.
	Answered func(route string, status int, took time.Duration)
	Log      *slog.Logger
	// Page is a page for browsers, which knows by itself who may see it; nil: there is none.
	Page http.Handler
}

// An API is the HTTP API, as a handler.
type API struct {
	Parts
	*http.ServeMux
	cfg    Config
	files  Files
	bodies *semaphore.Weighted // bytes of bodies that are read and decoded
}

// bodiesAtOnce is how many bytes the bodies of all requests have together, or max_body if that is
// more. Others wait. JSON that is decoded and validated takes up to sixty times as much memory.
const bodiesAtOnce = 4 << 20

func init() { huma.ValidateStrictCasing = true } // encoding/json takes "EXCHANGE" for exchange

// New makes the API of a configuration that was checked, with its files.
func New(cfg Config, files Files, p Parts) *API {
	a := &API{
		Parts: p, ServeMux: http.NewServeMux(), cfg: cfg, files: files,
		bodies: semaphore.NewWeighted(int64(max(bodiesAtOnce, cfg.MaxBody))),
	}
	p.Health(a.ServeMux)
	if p.Page != nil {
		a.HandleFunc("GET /{$}", a.page)
		a.HandleFunc("/page/", a.page)
	}
	a.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		write(w, noSuchPath.problemf("there is nothing here for this method; /openapi.json says what there is"))
	})
	h := humago.New(a.ServeMux, description())
	h.UseMiddleware(a.enter)
	a.register(h)
	return a
}

// page answers a browser. Without tokens only this machine may ask: see here.
func (a *API) page(w http.ResponseWriter, r *http.Request) {
	if a.files.Tokens == nil && !here(r.Host) {
		write(w, forbidden.problemf("another name of this machine: without tokens only requests to localhost are answered"))
		return
	}
	a.Page.ServeHTTP(w, r)
}

// description is what huma makes of the API. There is no page that shows it: that would load
// scripts from elsewhere.
func description() huma.Config {
	format := huma.Format{Marshal: huma.DefaultJSONFormat.Marshal, Unmarshal: decode}
	return huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "Delayer", Version: "1",
				Description: "Publishes messages to RabbitMQ that arrive later.",
			},
			Components: &huma.Components{
				Schemas:         huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
				SecuritySchemes: map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer"}},
			},
			Security: []map[string][]string{{"token": {}}},
		},
		OpenAPIPath: "/openapi", DefaultFormat: jsonType,
		Formats:      map[string]huma.Format{jsonType: format, "json": format}, // the second is for problem+json
		Transformers: []huma.Transformer{ofHuma},
	}
}

const jsonType = "application/json"

// decode refuses what is not UTF-8, which [json.Unmarshal] would replace.
func decode(data []byte, into any) error {
	if !utf8.Valid(data) {
		return errors.New("it is not UTF-8 (a body of other bytes can be written as base64)")
	}
	return json.Unmarshal(data, into)
}

// rightOf is the right that each operation needs. Others need a token only.
var rightOf = map[string]tokens.Right{
	"publish": tokens.Publish, "publishBatch": tokens.Publish, "cancel": tokens.Cancel, "postpone": tokens.Cancel, "ticket": tokens.Cancel,
}

func (a *API) register(h huma.API) {
	registry := h.OpenAPI().Components.Schemas
	operation := func(id, method, path, summary string, status int, problems ...int) huma.Operation {
		op := huma.Operation{
			OperationID: id, Method: method, Path: path, Summary: summary, DefaultStatus: status,
			MaxBodyBytes:    int64(a.cfg.MaxBody) + 1, // huma refuses as many
			BodyReadTimeout: a.cfg.bodyWithin,
			Responses:       map[string]*huma.Response{},
		}
		for _, status := range append(problems, http.StatusUnauthorized, http.StatusServiceUnavailable) {
			op.Responses[strconv.Itoa(status)] = &huma.Response{
				Description: http.StatusText(status),
				Content:     map[string]*huma.MediaType{problemType: {Schema: registry.Schema(reflect.TypeFor[Problem](), true, "")}},
			}
		}
		return op
	}
	const (
		messages = "/v1/messages"
		ticket   = messages + "/{ticket}"
	)
	posting := []int{
		http.StatusBadRequest, http.StatusForbidden, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity, http.StatusGatewayTimeout,
	}
	changing := []int{
		http.StatusForbidden, http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity,
		http.StatusNotImplemented, http.StatusGatewayTimeout,
	}
	huma.Register(h, operation("publish", http.MethodPost, messages, "Publish a message", http.StatusCreated, posting...), a.publish)
	huma.Register(h, operation("publishBatch", http.MethodPost, messages+"/batch", "Publish up to 1000 messages", http.StatusCreated, posting...), a.publishBatch)
	huma.Register(h, operation("cancel", http.MethodDelete, ticket, "Cancel a message", http.StatusNoContent, changing...), a.cancel)
	huma.Register(h, operation("postpone", http.MethodPatch, ticket, "Make a message due later", http.StatusOK, append(changing, posting...)...), a.postpone)
	huma.Register(h, operation("ticket", http.MethodGet, "/v1/tickets", "The ticket of an id and a due time", http.StatusOK,
		http.StatusForbidden, http.StatusUnprocessableEntity, http.StatusNotImplemented), a.ticket)
	huma.Register(h, operation("limits", http.MethodGet, "/v1/limits", "What can be delayed, and for how long", http.StatusOK), a.limits)
	delete(registry.Map(), reflect.TypeFor[huma.ErrorModel]().Name()) // nobody is sent one
	delete(registry.Map(), reflect.TypeFor[huma.ErrorDetail]().Name())
}

type bearerKey struct{}

// enter lets a request of the API in, if its bearer may do that.
func (a *API) enter(ctx huma.Context, next func(huma.Context)) {
	began, op, status := time.Now(), ctx.Operation(), 0
	defer func() { a.Answered(op.Method+" "+op.Path, status, time.Since(began)) }()
	r, w := humago.Unwrap(ctx)
	token, problem := a.admit(r, op)
	if problem != nil {
		status = problem.Status
		write(w, problem)
		return
	}
	size := int64(a.cfg.MaxBody)
	if r.ContentLength >= 0 {
		size = min(size, r.ContentLength) // what is longer is refused unread
	}
	waiting, cancel := context.WithTimeout(r.Context(), a.cfg.Timeout)
	err := a.bodies.Acquire(waiting, size)
	cancel()
	if err != nil {
		problem = busy.problemf("other requests have taken all the memory there is for them")
		status = problem.Status
		write(w, problem)
		return
	}
	defer a.bodies.Release(size)
	// What was taken is finished, whatever becomes of the connection.
	next(huma.WithContext(ctx, context.WithValue(context.WithoutCancel(r.Context()), bearerKey{}, token)))
	status = ctx.Status()
}

// admit knows a request by its token. Without a file of tokens everybody on this machine may do
// all, but not a page that a browser shows there.
func (a *API) admit(r *http.Request, op *huma.Operation) (*tokens.Token, *Problem) {
	if a.files.Tokens == nil {
		if err := http.NewCrossOriginProtection().Check(r); err != nil || !here(r.Host) {
			return nil, forbidden.problemf("a page of another site, or another name of this machine: without tokens only requests to localhost are answered")
		}
		return tokens.Anybody(), nil
	}
	token := a.files.Tokens.Bearer(r.Header.Get("Authorization"))
	if token == nil {
		return nil, unauthorized.problemf("write the header Authorization: Bearer and a token that is valid here")
	}
	if right, needed := rightOf[op.OperationID]; needed && !token.Has(right) {
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
