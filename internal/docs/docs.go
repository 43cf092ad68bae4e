// Package docs reads README.md and docs/*.md, so that tests can compare them with what there is.
package docs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// A Block is a code block of a page. Lang is empty where it says none.
type Block struct{ Lang, Text string }

// root is the folder of go.mod, above the working folder.
func root() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("docs: no go.mod above the working folder")
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}

// Pages returns the text of README.md and docs/*.md by the path below the folder of go.mod, which is
// that of the working folder or above it.
func Pages() (map[string]string, error) {
	folder, err := root()
	if err != nil {
		return nil, err
	}
	tree := os.DirFS(folder)
	paths, err := fs.Glob(tree, "docs/*.md")
	if err != nil {
		return nil, err
	}
	pages := map[string]string{}
	for _, path := range append(paths, "README.md") {
		text, err := fs.ReadFile(tree, path)
		if err != nil {
			return nil, err
		}
		pages[path] = string(text)
	}
	return pages, nil
}

// Blocks returns the code blocks of a page: fenced ones, and lines that are indented by four spaces after
// an empty line.
func Blocks(page string) (blocks []Block) {
	var fenced, indented []string
	lang, inFence, blank := "", false, true
	flush := func() {
		if len(indented) > 0 {
			blocks = append(blocks, Block{Text: strings.Join(indented, "\n") + "\n"})
			indented = nil
		}
	}
	for line := range strings.SplitSeq(page, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case inFence && trimmed == "```":
			blocks = append(blocks, Block{Lang: lang, Text: strings.Join(fenced, "\n") + "\n"})
			inFence, fenced = false, nil
		case inFence:
			fenced = append(fenced, line)
		case strings.HasPrefix(trimmed, "```"):
			flush()
			inFence, lang = true, strings.TrimPrefix(trimmed, "```")
		case strings.HasPrefix(line, "    ") && (blank || len(indented) > 0):
			indented = append(indented, trimmed)
		default:
			flush()
		}
		blank = trimmed == ""
	}
	flush()
	return blocks
}

// Commands returns the arguments of each line of a page's code blocks that runs the program. What a shell
// does with the rest of the line, as with a pipe or a comment, is left out.
func Commands(page, program string) (commands [][]string) {
	call := regexp.MustCompile(`^(?:\$ )?(?:[A-Z_]+=\S+ )*(?:go run \./cmd/)?` + regexp.QuoteMeta(program) + ` (.*)$`)
	for _, b := range Blocks(page) {
		if b.Lang != "" {
			continue
		}
		text := regexp.MustCompile(`\s*\\\n\s*`).ReplaceAllString(b.Text, " ")
		for line := range strings.Lines(text) {
			if found := call.FindStringSubmatch(strings.TrimSpace(line)); found != nil && !isOutput(found[1]) {
				commands = append(commands, words(found[1]))
			}
		}
	}
	return commands
}

// isOutput tells an error that a command prints, such as "migrate retire: …", from a command.
func isOutput(args string) bool { return regexp.MustCompile(`^[a-z ]+: `).MatchString(args) }

// words splits at spaces, but for those within single quotes, and ends at what is the shell's.
func words(args string) (words []string) {
	for _, w := range regexp.MustCompile(`(?:'[^']*'|\S)+`).FindAllString(args, -1) {
		if strings.ContainsAny(w[:1], "#|>&;") {
			return words
		}
		words = append(words, strings.ReplaceAll(w, "'", ""))
	}
	return words
}
