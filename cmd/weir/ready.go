package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"weir/engine/llm"
)

// readiness is what the block at the end of loading tells.
type readiness struct {
	model   string
	info    llm.Info
	url     string // of the API
	metrics string // of the second listener; empty: off
	chats   bool
	keyed   bool // clients must send a key

	others    []string // further language models and encoders
	classical []string // names of classical models
}

// print writes one block: what is served where, what fits, and a first call.
func (r readiness) print(w io.Writer) error {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-9s %s\n", name, fmt.Sprintf(format, args...))
	}
	i := r.info
	fmt.Fprintf(&b, "\nweir serves %s on %s\n\n", printable(r.model), r.url)
	line("model", "%s, %s parameters, %s of weights", i.Architecture, showCount(i.Params), showSize(i.WeightBytes))
	line("context", "%d tokens", i.MaxModelLen)
	if i.Embeds {
		line("gives", "%s", newEngineReport(i).gives())
	} else {
		line("kv cache", "%d tokens in %s (%s): %s", i.KVTokens, i.KVType, showSize(i.KVBytes),
			sequences(fullSequences(i), i.MaxModelLen))
	}
	line("threads", "%d", i.Threads)
	if len(r.others) > 0 {
		line("models", "%s", printable(strings.Join(r.others, ", ")))
	}
	if len(r.classical) > 0 {
		line("predict", "%s", printable(strings.Join(r.classical, ", ")))
	}
	if r.metrics != "" {
		line("metrics", "%s/metrics", r.metrics)
	}
	fmt.Fprintf(&b, "\n%s\n\n", r.curl())
	_, err := io.WriteString(w, b.String())
	return err
}

// fullSequences is the number of sequences of full length that the cache holds
// at once.
func fullSequences(i llm.Info) int { return i.KVTokens / max(i.MaxModelLen, 1) }

func sequences(n, tokens int) string {
	if n == 1 {
		return fmt.Sprintf("1 sequence of %d tokens", tokens)
	}
	return fmt.Sprintf("%d sequences of %d tokens", n, tokens)
}

// firstCall is a request to try; its fields are in the order people write.
type firstCall struct {
	Model    string    `json:"model"`
	Messages []message `json:"messages,omitempty"`
	Prompt   string    `json:"prompt,omitempty"`
	Input    string    `json:"input,omitempty"`

	Query     string   `json:"query,omitempty"`
	Documents []string `json:"documents,omitempty"`
}

// curl is a first call to paste into a shell.
func (r readiness) curl() string {
	path, call := "/v1/completions", firstCall{Model: r.model, Prompt: "Hello"}
	switch {
	case r.info.Scores > 0:
		path, call = "/v1/rerank", firstCall{Model: r.model, Query: "a small fish", Documents: []string{"herring", "eagle"}}
	case r.info.Embeds:
		path, call = "/v1/embeddings", firstCall{Model: r.model, Input: "Hello"}
	case r.chats:
		path, call = "/v1/chat/completions", firstCall{Model: r.model, Messages: []message{{"user", "Hello"}}}
	}
	body, err := json.Marshal(call)
	if err != nil {
		return "curl " + r.url + "/v1/models"
	}
	key := ""
	if r.keyed {
		key = ` -H "Authorization: Bearer $WEIR_API_KEY"`
	}
	return fmt.Sprintf("curl %s%s%s -H 'Content-Type: application/json' \\\n  -d %s", r.url, path, key, shellQuote(string(body)))
}

// shellQuote makes one word of s for a POSIX shell.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// printable keeps control characters of files and names off the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return utf8.RuneError
		}
		return r
	}, s)
}

// printableText is printable for text of several lines.
func printableText(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return utf8.RuneError
		}
		return r
	}, s)
}
