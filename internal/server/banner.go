package server

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"weir/engine/llm"
	"weir/internal/console"
	"weir/internal/server/local"
	"weir/internal/unit"
)

// banner is what the block at the end of loading tells.
type banner struct {
	model   string
	info    llm.Info
	url     string // of the API
	metrics string // of the admin listener; empty: off
	chats   bool
	store   string // where it is; empty: not told
	keyed   bool   // clients must send a key

	others    []string // further language models and encoders
	classical []string // names of classical models
}

// print writes one block: what is served where, what fits, and a first call.
func (r banner) print(w io.Writer) error {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-9s %s\n", name, fmt.Sprintf(format, args...))
	}
	i := r.info
	fmt.Fprintf(&b, "\nweir serves %s on %s\n\n", console.Printable(r.model), r.url)
	line("model", "%s, %s parameters, %s of weights", i.Architecture, unit.Count(i.Params), unit.Bytes(i.WeightBytes))
	switch {
	case i.MTPUsed:
		line("drafts", "by its MTP head: keys and values in %s", unit.Bytes(i.DraftKVBytes))
	case i.DraftBytes > 0:
		line("drafts", "by a model of its own: %s of weights, keys and values in %s", unit.Bytes(i.DraftBytes-i.DraftKVBytes), unit.Bytes(i.DraftKVBytes))
	}
	line("context", "%d tokens", i.MaxModelLen)
	if i.Embeds {
		line("gives", "%s", local.Gives(i))
	} else {
		line("kv cache", "%d tokens in %s (%s): %s", i.KVTokens, i.KVType, unit.Bytes(i.KVBytes),
			local.Sequences(local.FullSequences(i), i.MaxModelLen))
		if s := local.States(i); s != "" {
			line("states", "%s", s)
		}
	}
	line("threads", "%d", i.Threads)
	if len(r.others) > 0 {
		line("models", "%s", console.Printable(strings.Join(r.others, ", ")))
	}
	if len(r.classical) > 0 {
		line("predict", "%s", console.Printable(strings.Join(r.classical, ", ")))
	}
	line("page", "%s/playground/", r.url)
	if r.metrics != "" {
		line("console", "%s/console/", r.metrics)
		line("metrics", "%s/metrics", r.metrics)
	}
	if r.store != "" {
		line("store", "%s", console.Printable(r.store))
	}
	fmt.Fprintf(&b, "\n%s\n\n", r.curl())
	_, err := io.WriteString(w, b.String())
	return err
}

// firstCall is a request to try; its fields are in the order people write.
type firstCall struct {
	Model    string          `json:"model"`
	Messages []local.Message `json:"messages,omitempty"`
	Prompt   string          `json:"prompt,omitempty"`
	Input    string          `json:"input,omitempty"`

	Query     string   `json:"query,omitempty"`
	Documents []string `json:"documents,omitempty"`

	Questions []firstQuestion `json:"questions,omitempty"`
}

// firstQuestion is one to a decision head.
type firstQuestion struct {
	Type         string `json:"type"`
	Instructions string `json:"instructions"`
}

// curl is a first call to paste into a shell.
func (r banner) curl() string {
	path, call := "/v1/completions", firstCall{Model: r.model, Prompt: "Hello"}
	switch {
	case r.info.Decides, r.info.DecisionType != "":
		path, call = "/v1/decisions", firstCall{Model: r.model, Input: "Please refund me", Questions: []firstQuestion{{"predicate", "The customer wants money back"}}}
	case r.info.Scores > 0 && !r.info.Ranks():
		path, call = "/v1/classify", firstCall{Model: r.model, Input: "Please refund me"}
	case r.info.Scores > 0:
		path, call = "/v1/rerank", firstCall{Model: r.model, Query: "a small fish", Documents: []string{"herring", "eagle"}}
	case r.info.Embeds:
		path, call = "/v1/embeddings", firstCall{Model: r.model, Input: "Hello"}
	case r.chats:
		path, call = "/v1/chat/completions", firstCall{Model: r.model, Messages: []local.Message{{Role: "user", Content: "Hello"}}}
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
