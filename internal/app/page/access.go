package page

import (
	"crypto/rand"
	"net/http"
	"time"

	"github.com/delayer-go/delayer/internal/app/tokens"
)

const (
	sessionFor = 12 * time.Hour
	mostForm   = 256 << 10
)

// A visitor is who looks at the page.
type visitor struct {
	Name string // "" if nobody is asked for it
	Act  bool   // has the right to act

	session string
}

// A session is in memory alone.
type session struct {
	token *tokens.Token
	ends  time.Time
}

// cookie is the name of the session's. With TLS a browser takes it from this host alone.
func (p *Page) cookie() string {
	if p.Encrypted {
		return "__Host-delayer"
	}
	return "delayer"
}

func (p *Page) setCookie(w http.ResponseWriter, value string, seconds int) {
	http.SetCookie(w, &http.Cookie{
		Name: p.cookie(), Value: value, Path: "/", MaxAge: seconds,
		HttpOnly: true, Secure: p.Encrypted, SameSite: http.SameSiteStrictMode,
	})
}

// visitor is who sends a request, or nil. A session ends with its token.
func (p *Page) visitor(r *http.Request) *visitor {
	if p.Tokens == nil {
		return &visitor{}
	}
	c, err := r.Cookie(p.cookie())
	if err != nil {
		return nil
	}
	found, _ := p.sessions.Load(c.Value)
	s, is := found.(session)
	if !is || !p.now().Before(s.ends) {
		return nil
	}
	token := p.Tokens.Current(s.token)
	if token == nil || !token.Has(tokens.View) {
		return nil
	}
	return &visitor{Name: token.Name, Act: token.Has(tokens.Act), session: c.Value}
}

// with lets those in who have a right. A request that changes something must come from the page
// itself.
func (p *Page) with(right tokens.Right, do func(http.ResponseWriter, *http.Request, *visitor)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v := p.visitor(r)
		switch {
		case v == nil && r.Method == http.MethodGet:
			http.Redirect(w, r, "/page/login", http.StatusSeeOther)
		case v == nil:
			p.fail(w, nil, http.StatusUnauthorized, "You are not logged in, or not any more. Nothing was done.")
		case right == tokens.Act && !v.Act:
			p.fail(w, v, http.StatusForbidden, "You may look, but not act: you have not the right act.")
		case r.Method == http.MethodGet:
			do(w, r, v)
		case !p.form(w, r):
			p.fail(w, v, http.StatusForbidden, "This request does not come from this page. Nothing was done.")
		default:
			do(w, r, v)
		}
	}
}

// form reads the form of a request, unless another site has sent it. Every browser says where a
// form comes from: a request that does not is refused too, which CrossOriginProtection would pass.
func (p *Page) form(w http.ResponseWriter, r *http.Request) bool {
	said := r.Header.Get("Sec-Fetch-Site") != "" || r.Header.Get("Origin") != ""
	if !said || p.foreign.Check(r) != nil {
		return false
	}
	r.Body = http.MaxBytesReader(w, r.Body, mostForm)
	err := r.ParseForm()
	// The API gave each request a deadline for its body. It would end the request's context.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // a recorder of a test has none
	return err == nil
}

func (p *Page) loginForm(w http.ResponseWriter, r *http.Request) {
	if p.visitor(r) != nil {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	p.show(w, http.StatusOK, "login", frame{Title: "Log in", Content: ""})
}

func (p *Page) login(w http.ResponseWriter, r *http.Request) {
	if p.Tokens == nil || !p.form(w, r) {
		p.fail(w, nil, http.StatusForbidden, "This request does not come from this page.")
		return
	}
	token := p.Tokens.Bearer("Bearer " + r.PostForm.Get("token"))
	switch {
	case token == nil:
		p.failed.Warn(p.Log, "a login at the page failed: there is no such token; others are not logged for a minute", "from", r.RemoteAddr)
		p.show(w, http.StatusUnauthorized, "login", frame{Title: "Log in", Content: "There is no such token."})
		return
	case !token.Has(tokens.View):
		p.failed.Warn(p.Log, "a login at the page failed: the token has not the right view; others are not logged for a minute", "who", token.Name, "from", r.RemoteAddr)
		p.show(w, http.StatusForbidden, "login", frame{Title: "Log in", Content: "This token has not the right view."})
		return
	}
	p.sessions.Range(func(id, s any) bool {
		if p.now().After(s.(session).ends) {
			p.sessions.Delete(id)
		}
		return true
	})
	id := rand.Text()
	p.sessions.Store(id, session{token, p.now().Add(sessionFor)})
	p.setCookie(w, id, int(sessionFor.Seconds()))
	p.Log.Info("somebody logged in at the page", "who", token.Name, "from", r.RemoteAddr)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (p *Page) logout(w http.ResponseWriter, r *http.Request, v *visitor) {
	p.sessions.Delete(v.session)
	p.setCookie(w, "", -1)
	http.Redirect(w, r, "/page/login", http.StatusSeeOther)
}
