package cli

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// files stands for the names of files, which the shell knows better.
const files = ":files\n"

// complete returns what the last of words may become: lines "word\thelp", or files.
func complete(root *kong.Node, words []string) []string {
	if len(words) == 0 {
		words = []string{""}
	}
	p := place{root: root, node: root}
	for _, word := range words[:len(words)-1] {
		p.pass(word)
	}
	return p.candidates(words[len(words)-1])
}

// A place is where a word of a command line stands.
type place struct {
	root, node *kong.Node
	flag       *kong.Flag // whose value is next
	args       int        // of node, that were passed
}

// pass goes behind a word. bash splits --flag=value into three of them.
func (p *place) pass(word string) {
	var child *kong.Node
	if i := slices.IndexFunc(p.node.Children, func(c *kong.Node) bool { return c.Name == word }); i >= 0 {
		child = p.node.Children[i]
	}
	switch {
	case p.flag != nil:
		if word != "=" {
			p.flag = nil
		}
	case strings.HasPrefix(word, "-"):
		if f := p.find(word); f != nil && !f.IsBool() {
			p.flag = f
		}
	case child != nil && child.Parent == p.root && child.Name == "help":
		p.node = p.root // its arguments are a command
	case child != nil:
		p.node, p.args = child, 0
	default:
		p.args++
	}
}

// find returns the flag that is written as word, or nil.
func (p *place) find(word string) *kong.Flag {
	for _, f := range p.flags() {
		if "--"+f.Name == word || f.Short != 0 && "-"+string(f.Short) == word {
			return f
		}
	}
	return nil
}

// flags are those that may be given here, those of a default command too.
func (p *place) flags() (all []*kong.Flag) {
	all = slices.Concat(p.node.AllFlags(true)...)
	if p.node.DefaultCmd != nil {
		all = append(all, p.node.DefaultCmd.Flags...)
	}
	return all
}

func (p *place) candidates(last string) (lines []string) {
	if p.flag != nil {
		return values(p.flag.Value, "", strings.TrimPrefix(last, "="))
	}
	add := func(word, help string) {
		if strings.HasPrefix(word, last) {
			lines = append(lines, line(word, help))
		}
	}
	if strings.HasPrefix(last, "-") {
		name, value, given := strings.Cut(last, "=")
		if f := p.find(name); given && f != nil {
			return values(f.Value, name+"=", value)
		}
		for _, f := range p.flags() {
			add("--"+f.Name, f.Help)
		}
		return lines
	}
	for _, c := range p.node.Children {
		if !c.Hidden && p.args == 0 {
			add(c.Name, c.Help)
		}
	}
	if p.args < len(p.node.Positional) {
		lines = append(lines, values(p.node.Positional[p.args], "", last)...)
	}
	return lines
}

// values are those of a flag or an argument that begin with last, written behind before.
func values(v *kong.Value, before, last string) (lines []string) {
	if strings.HasPrefix(v.Tag.PlaceHolder, "FILE") || v.Tag.PlaceHolder == "DIR" {
		return []string{files}
	}
	if v.Enum == "" {
		return nil
	}
	for _, value := range v.EnumSlice() {
		if strings.HasPrefix(value, last) {
			lines = append(lines, line(before+value, ""))
		}
	}
	return lines
}

// line is a word with the first sentence of its help.
func line(word, help string) string {
	help, _, _ = strings.Cut(help, ". ")
	return strings.TrimSuffix(word+"\t"+help, "\t") + "\n"
}
