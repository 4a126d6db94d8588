package fleet

import (
	"bytes"
	"hash/fnv"

	"weir/router"
	"weir/router/prefix"
)

// bytesPerToken guesses how long a prompt is where its tokenizer is elsewhere.
const bytesPerToken = 4

// keys names the prefixes of a request's prompt: by the replicas' own block hashes where the prompt's
// tokens are known, and otherwise by its text. The text is the client's own JSON, of which
// a conversation's next request begins with the same bytes, up to the bracket that ends the
// messages: reading it costs more than a client that writes the same in two ways loses.
func (b *blockIndex) keys(c *router.Call) []prefix.Key {
	if keys := b.blockKeys(c); keys != nil || len(c.Prompt) == 0 {
		return keys
	}
	chain := prefix.NewRoot(b.model, c.Domain).Begin(make([]prefix.Key, 0, min(c.PromptBytes()/prefix.PieceBytes, prefix.MaxDepth)))
	final := len(c.Prompt) - 1
	for _, p := range c.Prompt[:final] {
		chain.Part(p.Kind, string(p.Text))
	}
	p := c.Prompt[final]
	chain.Open(p.Kind, string(bytes.TrimRight(p.Text, "]\" \t\r\n")))
	return chain.Keys()
}

// sessionOf is a session's number, the same in all routers; 0 is none.
func sessionOf(name string) uint64 {
	if name == "" {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return max(h.Sum64(), 1)
}
