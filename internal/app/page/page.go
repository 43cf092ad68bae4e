// Package page shows in a browser what waits, what was not delivered and who is at work: the page
// of delayer serve. Whoever has the right may also act.
//
// It is made on the server. A script only replaces the figures by newer ones. Nothing is loaded
// from elsewhere, and what comes from messages and names is text.
package page

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/tokens"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/pace"
)

// Parts are what a page is made of.
type Parts struct {
	Figures *Figures
	Backlog *Backlog
	Rates   *Rates
	Tickets *Tickets           // nil: messages have none
	Retries *question[retried] // nil: there is no management API
	Tokens  *tokens.File       // nil: whoever reaches the page may look, and nobody may act
	// Encrypted says that browsers come by TLS.
	Encrypted bool
	Log       *slog.Logger
}

// Open gives the parts that ask the broker of a configuration, until Close.
func Open(cfg backend.Config, settings engine.Settings, depths Depths) Parts {
	p := Parts{Backlog: NewBacklog(cfg, settings), Figures: NewFigures(cfg, depths)}
	if settings.Management != "" {
		p.Retries = &question[retried]{now: time.Now, ask: func(ctx context.Context) (retried, error) { return readRetried(ctx, settings) }}
	}
	return p
}

// Close ends what is under way, and the connections.
func (p Parts) Close() {
	p.Figures.Close()
	p.Backlog.Close()
}

// A Page answers browsers.
type Page struct {
	Parts
	mux      *http.ServeMux
	sessions sync.Map // a [session] by its cookie
	foreign  *http.CrossOriginProtection
	now      func() time.Time
	began    time.Time     // when this process did
	failed   pace.Warnings // logins
}

// New makes a page.
func New(p Parts) *Page {
	page := &Page{Parts: p, foreign: http.NewCrossOriginProtection(), now: time.Now, began: time.Now(), mux: http.NewServeMux()}
	page.routes()
	return page
}

//go:embed assets
var files embed.FS

// static are files that need no right.
var static = []string{"style.css", "live.js", "times.js", "select.js", "icon.svg"}

// sendWithin is for an answer, once it is known. A message may have 100 MiB.
const sendWithin = time.Minute

// ServeHTTP implements [http.Handler], for / and what is below /page/.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	guard(w.Header())
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(lookFor + sendWithin)) // a recorder of a test has none
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		r.Body = http.NoBody // FormValue would read a form in it, and write its files to disk
	}
	p.mux.ServeHTTP(w, r)
}

func (p *Page) routes() {
	for _, name := range static {
		p.mux.HandleFunc("GET /page/"+name, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "no-cache")
			http.ServeFileFS(w, r, files, "assets/"+name)
		})
	}
	p.mux.HandleFunc("GET /{$}", p.with(tokens.View, p.overview))
	p.mux.HandleFunc("GET /page/waiting", p.with(tokens.View, p.waiting))
	p.mux.HandleFunc("GET /page/ticket", p.with(tokens.View, p.ticket))
	p.mux.HandleFunc("POST /page/ticket", p.with(tokens.Act, p.changeTicket))
	p.mux.HandleFunc("GET /page/login", p.loginForm)
	p.mux.HandleFunc("POST /page/login", p.login)
	p.mux.HandleFunc("POST /page/logout", p.with(tokens.View, p.logout))
	p.mux.HandleFunc("GET /page/undelivered", p.with(tokens.View, p.undelivered))
	p.mux.HandleFunc("GET /page/queue", p.with(tokens.View, p.list))
	p.mux.HandleFunc("GET /page/message", p.with(tokens.View, p.message))
	p.mux.HandleFunc("GET /page/job", p.with(tokens.View, p.progress))
	p.mux.HandleFunc("POST /page/act", p.with(tokens.Act, p.act))
	p.mux.HandleFunc("GET "+retriesPath, p.with(tokens.View, p.retries))
	p.mux.HandleFunc("/page/", func(w http.ResponseWriter, r *http.Request) {
		p.fail(w, p.visitor(r), http.StatusNotFound, "There is no such page.")
	})
}

// guard sets what every answer has. Nothing of another site is loaded, and no other site shows the
// page.
func guard(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "+
		"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin") // with no-referrer a form would be sent without its origin
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// A frame is what every page shows around its content.
type frame struct {
	Title   string
	At      string // the path of the navigation's current page
	Visitor *visitor
	Now     time.Time
	Live    bool // a script replaces the figures every five seconds
	Selects bool // a script may select all messages
	Again   bool // newer figures come within seconds: a script looks again after one
	Version string
	Content any
}

var templates = func() map[string]*template.Template {
	base := template.Must(template.New("base.gohtml").Funcs(functions).ParseFS(files, "assets/base.gohtml"))
	all := map[string]*template.Template{}
	list, _ := fs.Glob(files, "assets/*.gohtml")
	for _, path := range list {
		name := strings.TrimSuffix(strings.TrimPrefix(path, "assets/"), ".gohtml")
		all[name] = template.Must(template.Must(base.Clone()).ParseFS(files, path))
	}
	return all
}()

// show answers with a page.
func (p *Page) show(w http.ResponseWriter, status int, name string, f frame) {
	f.Now, f.Version = p.now(), cli.Version()
	var b bytes.Buffer
	if err := templates[name].ExecuteTemplate(&b, "base.gohtml", f); err != nil {
		p.Log.Error("a page cannot be shown", "page", name, "error", err)
		http.Error(w, "an error of the server; its log says more", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}

func (p *Page) fail(w http.ResponseWriter, v *visitor, status int, format string, args ...any) {
	p.show(w, status, "problem", frame{Title: http.StatusText(status), Visitor: v, Content: fmt.Sprintf(format, args...)})
}
