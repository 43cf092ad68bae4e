package cli

import "strings"

// Quote is a word as a shell reads it.
func Quote(word string) string {
	if word != "" && !strings.ContainsAny(word, " \t\n'\"\\$`!*?[](){}<>|&;#~") {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
