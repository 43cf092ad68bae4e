// Package tokens reads who may use what by HTTP. A file lists bearer tokens by their SHA-256, each
// with its rights and the exchanges and queues that it may publish to. So the file itself opens
// nothing.
package tokens

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"go.yaml.in/yaml/v3"

	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/strict"
)

// A Right is a kind of request.
type Right string

const (
	// Publish is the right to publish messages.
	Publish Right = "publish"
	// Cancel is the right to cancel and postpone what the bearer has a ticket of. Nobody can guess
	// one.
	Cancel Right = "cancel"
	// View is the right to look at the page: at every message that was not delivered too.
	View Right = "view"
	// Act is the right to do what the page offers. It needs View.
	Act Right = "act"
)

var rights = []Right{Publish, Cancel, View, Act}

// A Token is what its bearer may do.
type Token struct {
	Name   string
	rights []Right
	// exchanges and queues match the names that messages may go to. Queues are reached through the
	// default exchange.
	exchanges, queues func(name string) bool
	sum               [sha256.Size]byte
}

// Anybody may do all: for a server that only its own machine reaches.
func Anybody() *Token {
	all := func(string) bool { return true }
	return &Token{Name: "anybody", rights: rights, exchanges: all, queues: all}
}

// Has reports whether a token has a right.
func (t *Token) Has(r Right) bool { return slices.Contains(t.rights, r) }

// Exchange reports whether messages may go to an exchange. The default exchange is none: see Queue.
func (t *Token) Exchange(name string) bool { return name != "" && t.exchanges(name) }

// Queue reports whether messages may go to a queue, through the default exchange.
func (t *Token) Queue(name string) bool { return name != "" && t.queues(name) }

// written is a token as the file has it.
type written struct {
	Name      string   `yaml:"name"`
	SHA256    string   `yaml:"sha256"`
	Rights    []Right  `yaml:"rights"`
	Exchanges []string `yaml:"exchanges"`
	Queues    []string `yaml:"queues"`
}

// Parse reads the text of a file, which errors name. Errors are ErrConfig, and quote no hash: somebody may have
// written a token in its place.
func Parse(file string, text []byte) ([]*Token, error) {
	name := file + ": "
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil || len(doc.Content) == 0 {
		return nil, engine.ConfigError(name+"tokens", errors.New("the file is not YAML"), "want tokens: and a list")
	}
	var content struct {
		Tokens []written `yaml:"tokens"`
	}
	if _, err := strict.Decode(name, doc.Content[0], &content); err != nil {
		return nil, err
	}
	var list []*Token
	for i, w := range content.Tokens {
		t, err := w.token()
		if err == nil && slices.ContainsFunc(list, func(other *Token) bool { return other.sum == t.sum || other.Name == t.Name }) {
			err = errors.New("its name or its sha256 is there twice")
		}
		if err != nil {
			return nil, engine.ConfigError(fmt.Sprintf("%stokens[%d] (name: %.64q)", name, i, w.Name), err, "docs/languages.md has an example")
		}
		list = append(list, t)
	}
	return list, nil
}

func (w written) token() (*Token, error) {
	t := &Token{Name: w.Name, rights: w.Rights, exchanges: entry.Matches(w.Exchanges), queues: entry.Matches(w.Queues)}
	sum, err := hex.DecodeString(w.SHA256)
	switch {
	case w.Name == "":
		return nil, errors.New("name is empty")
	case err != nil && strings.HasSuffix(strings.TrimSpace(w.SHA256), "-"):
		return nil, errors.New("sha256 has more than 64 hexadecimal digits: leave out the - that sha256sum writes behind them")
	case err != nil || len(sum) != len(t.sum):
		return nil, errors.New("sha256 is not 64 hexadecimal digits: write the hash of the token, not the token")
	case [sha256.Size]byte(sum) == sha256.Sum256(nil):
		return nil, errors.New("sha256 is that of an empty text: nothing was piped into the command that made it")
	case len(w.Rights) == 0:
		return nil, errors.New("rights is empty: write rights: [publish]")
	case slices.Contains(w.Rights, Publish) != (len(w.Exchanges)+len(w.Queues) > 0):
		return nil, errors.New("the right publish and a list of exchanges or queues belong together")
	case slices.Contains(w.Exchanges, ""), slices.Contains(w.Queues, ""):
		return nil, errors.New("a name is empty (queues has the names that the default exchange may be used for)")
	}
	copy(t.sum[:], sum)
	for _, right := range w.Rights {
		if !slices.Contains(rights, right) {
			return nil, fmt.Errorf("rights: %.64q is not known (known: %s)", right, rights)
		}
	}
	if t.Has(Act) && !t.Has(View) {
		return nil, errors.New("the right act needs the right view")
	}
	return t, nil
}

// A File keeps the tokens of a file.
type File struct {
	path string
	list atomic.Pointer[[]*Token]
}

// Open reads a file.
func Open(path string) (*File, error) {
	f := &File{path: path}
	return f, f.Read()
}

// Read reads the file again. After an error the tokens from before are still valid.
func (f *File) Read() error {
	text, err := os.ReadFile(f.path)
	if err != nil {
		return engine.ConfigError("serve.http.tokens", err, "give a file that this process may read")
	}
	list, err := Parse(f.path, text)
	if err == nil {
		f.list.Store(&list)
	}
	return err
}

// Bearer returns the token of an Authorization header, or nil. Every hash is compared in full, so
// the time that it takes tells nothing.
func (f *File) Bearer(authorization string) *Token {
	scheme, secret, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") || secret == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(secret)))
	var found *Token
	for _, t := range *f.list.Load() {
		if subtle.ConstantTimeCompare(sum[:], t.sum[:]) == 1 {
			found = t
		}
	}
	return found
}

// Current is what the file says now of a token that it had, or nil.
func (f *File) Current(of *Token) *Token {
	for _, t := range *f.list.Load() {
		if t.sum == of.sum {
			return t
		}
	}
	return nil
}
