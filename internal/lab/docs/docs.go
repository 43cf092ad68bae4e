// Package docs reads README.md and docs/*.md, so that tests run what the pages show.
package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A Block is a code block of a page. Lang is empty where it says none.
type Block struct{ Lang, Text string }

// Pages returns the text of README.md and docs/*.md by path, as docs/start.md. root is the way from the test's folder to the folder of go.mod.
func Pages(t testing.TB, root string) map[string]string {
	t.Helper()
	pages := map[string]string{}
	for _, pattern := range []string{"README.md", "docs/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			path, err := filepath.Rel(root, file)
			require.NoError(t, err)
			pages[filepath.ToSlash(path)] = string(text)
		}
	}
	return pages
}

// A block is fenced, or is lines that are indented by four spaces after an empty line.
var (
	block  = regexp.MustCompile("(?ms)^ *```(\\w*)\n(.*?)^ *```$|^\n((?:    [^\n]+\n)+)")
	indent = regexp.MustCompile("(?m)^    ")
)

// Blocks returns the code blocks of a page.
func Blocks(page string) (blocks []Block) {
	for _, b := range block.FindAllStringSubmatch(page, -1) {
		blocks = append(blocks, Block{Lang: b[1], Text: b[2] + indent.ReplaceAllString(b[3], "")})
	}
	return blocks
}

// Commands returns the arguments of each line of a page's code blocks that runs the program, up to
// what is the shell's, as a pipe or a comment.
func Commands(page, program string) (commands [][]string) {
	call := regexp.MustCompile(`(?m)^ *(?:\$ )?(?:[A-Z_]+=\S+ )*(?:go run \./cmd/)?` + program + ` (.*)$`)
	continued := regexp.MustCompile(`\s*\\\n\s*`)
	for _, b := range Blocks(page) {
		if b.Lang != "" && b.Lang != "sh" {
			continue
		}
		for _, found := range call.FindAllStringSubmatch(continued.ReplaceAllString(b.Text, " "), -1) {
			if !output.MatchString(found[1]) {
				commands = append(commands, words(found[1]))
			}
		}
	}
	return commands
}

var (
	output = regexp.MustCompile(`^[a-z ]+: `) // an error that a command prints: "migrate retire: …"
	word   = regexp.MustCompile(`(?:'[^']*'|\S)+`)
)

func words(args string) (words []string) {
	for _, w := range word.FindAllString(args, -1) {
		if strings.ContainsAny(w[:1], "#|>&;") {
			return words
		}
		words = append(words, strings.ReplaceAll(w, "'", ""))
	}
	return words
}
