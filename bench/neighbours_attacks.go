package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Attack is what a tenant may send that costs a server more than it costs the tenant.
type Attack struct {
	Name    string
	About   string
	Clients int // at a time; each sends its next request when the last is answered

	HangUp bool // each client leaves as soon as its answer begins, or after a few milliseconds
	Unread bool // the answers are not read

	request func(words, client, turn int) (path string, body []byte)
	header  func(h http.Header, client, turn int) // further fields of the request's head; nil: none

	// do sends something else than one request; nil: request says what is sent
	do func(ctx context.Context, w *attacker, client, turn int) (status int, err error)
}

// hangUpAfter is how long a client waits that hangs up.
const hangUpAfter = 20 * time.Millisecond

// Attacks are those that weir is measured beside.
var Attacks = slices.Concat(workAttacks, callAttacks, sideAttacks, keptAttacks)

// workAttacks have much computed.
var workAttacks = []Attack{
	{Name: "prompts", About: "six long prompts", Clients: 6, request: func(words, client, turn int) (string, []byte) {
		return chatAttack(fields{"messages": userSays(longText(words, client, turn)), "max_tokens": 1})
	}},
	{Name: "choices", About: "two requests with n 128", Clients: 2, request: func(_, client, turn int) (string, []byte) {
		return chatAttack(fields{"messages": userSays(fmt.Sprint("Count ", client, turn)), "n": 128, "max_tokens": 32, "ignore_eos": true})
	}},
	{Name: "echo", About: "four prompts echoed with log-probabilities", Clients: 4, request: func(words, client, turn int) (string, []byte) {
		return completionAttack(fields{"prompt": longText(words, client, turn), "echo": true, "logprobs": 5, "max_tokens": 1})
	}},
	{Name: "allowed", About: "four requests with 40,000 allowed_token_ids", Clients: 4, request: func(_, client, turn int) (string, []byte) {
		ids := make([]int, 40_000)
		for i := range ids {
			ids[i] = i
		}
		return chatAttack(fields{"messages": userSays(fmt.Sprint("Say ", client, turn)), "allowed_token_ids": ids, "max_tokens": 16, "ignore_eos": true})
	}},
	{Name: "streams", About: "thirty streams of 200 tokens", Clients: 30, request: func(_, client, turn int) (string, []byte) {
		return chatAttack(fields{"messages": userSays(fmt.Sprint("Tell story ", client, turn)), "stream": true, "max_tokens": 200, "ignore_eos": true})
	}},
	{Name: "tokenise", About: "sixteen texts of 900 kB for /tokenize", Clients: 16, request: func(_, client, turn int) (string, []byte) {
		return "/tokenize", encoded(fields{"model": clusterModel, "prompt": longText(150_000, client, turn)})
	}},
	{Name: "templates", About: "eight chats of 4,096 messages for /apply-template", Clients: 8, request: func(_, client, turn int) (string, []byte) {
		messages := make([]fields, 4096)
		for i := range messages {
			messages[i] = fields{"role": []string{"user", "assistant"}[i%2], "content": fmt.Sprint("word ", client, turn, i)}
		}
		return "/apply-template", encoded(fields{"model": clusterModel, "messages": messages})
	}},
	{Name: "schemas", About: "eight new schemas of 300 properties", Clients: 8, request: func(_, client, turn int) (string, []byte) {
		properties := fields{}
		for i := range 300 {
			properties[fmt.Sprintf("p%d_%d_%d", client, turn, i)] = fields{"type": "string", "pattern": fmt.Sprintf("^[a-z]{1,%d}[0-9]{2,9}$", 20+i%40)}
		}
		return chatAttack(fields{"messages": userSays("Answer."), "max_tokens": 16, "response_format": fields{"type": "json_schema",
			"json_schema": fields{"name": "large", "schema": fields{"type": "object", "properties": properties}}}})
	}},
	{Name: "regex", About: "a regular expression with counted classes", Clients: 1, request: func(_, client, turn int) (string, []byte) {
		return chatAttack(fields{"messages": userSays("Answer."), "max_tokens": 64, "structured_outputs": fields{
			"regex": fmt.Sprintf(`(\p{L}{1,%d}|[^a-z]{3,700}){2,60}`, 500+client+turn)}})
	}},
	{Name: "logprobs", About: "sixteen streams with 20 top_logprobs", Clients: 16, request: func(_, client, turn int) (string, []byte) {
		return chatAttack(fields{"messages": userSays(fmt.Sprint("Explain ", client, turn)), "stream": true, "logprobs": true, "top_logprobs": 20,
			"max_tokens": 200, "ignore_eos": true})
	}},
	{Name: "sampling", About: "sixteen streams with penalties, top_p and min_p", Clients: 16, request: func(_, client, turn int) (string, []byte) {
		return chatAttack(fields{"messages": userSays(fmt.Sprint("Invent ", client, turn)), "stream": true, "max_tokens": 200, "ignore_eos": true,
			"temperature": 1.9, "top_p": 0.9999, "min_p": 0.0001, "frequency_penalty": 0.5, "presence_penalty": 0.5, "repetition_penalty": 1.1})
	}},
	{Name: "bias", About: "sixteen requests with a logit_bias of 1,024 tokens", Clients: 16, request: func(_, client, turn int) (string, []byte) {
		bias := make(map[string]int, 1024) // no more are taken
		for i := range 1024 {
			bias[strconv.Itoa(40*i)] = i % 7
		}
		return chatAttack(fields{"messages": userSays(fmt.Sprint("Name ", client, turn)), "logit_bias": bias, "max_tokens": 16, "ignore_eos": true})
	}},
}

// callAttacks have much asked.
var callAttacks = []Attack{
	{Name: "tiny", About: "32 clients that ask for one token", Clients: 32, request: func(_, client, turn int) (string, []byte) {
		return completionAttack(fields{"prompt": fmt.Sprintf("%d-%d is", client, turn), "max_tokens": 1})
	}},
	{Name: "lists", About: "two lists of 128 prompts", Clients: 2, request: func(_, client, turn int) (string, []byte) {
		prompts := make([]string, 128) // no more are taken
		for i := range prompts {
			prompts[i] = longText(8, client, 1000*turn+i)
		}
		return completionAttack(fields{"prompt": prompts, "max_tokens": 4, "ignore_eos": true})
	}},
	{Name: "tools", About: "four chats with 60 tools", Clients: 4, request: func(_, client, turn int) (string, []byte) {
		tools := make([]fields, 60) // they fit into a context of 8,192 tokens
		for i := range tools {
			tools[i] = fields{"type": "function", "function": fields{"name": fmt.Sprintf("f%d_%d_%d", client, turn, i), "description": "adds two numbers",
				"parameters": fields{"type": "object", "properties": fields{"a": fields{"type": "number"}, "b": fields{"type": "number"}}}}}
		}
		return chatAttack(fields{"messages": userSays("Add 1 and 2."), "tools": tools, "tool_choice": "required", "max_tokens": 16})
	}},
	{Name: "oversized", About: "eight prompts far beyond the context", Clients: 8, request: func(_, client, turn int) (string, []byte) {
		return chatAttack(fields{"messages": userSays(longText(100_000, client, turn)), "max_tokens": 1})
	}},
	{Name: "hangups", About: "32 clients that hang up at once", Clients: 32, HangUp: true, request: func(words, client, turn int) (string, []byte) {
		return chatAttack(fields{"messages": userSays(longText(words, client, turn)), "stream": true, "max_tokens": 200, "ignore_eos": true})
	}},
	{Name: "unread", About: "32 streams that are not read", Clients: 32, Unread: true, request: func(_, client, turn int) (string, []byte) {
		return chatAttack(fields{"messages": userSays(fmt.Sprint("Go on ", client, turn)), "stream": true, "max_tokens": 2000, "ignore_eos": true})
	}},
}

// attacksNamed are those of these names; all without any.
func attacksNamed(names []string) (list []Attack, err error) {
	if len(names) == 0 {
		return Attacks, nil
	}
	for _, name := range names {
		i := slices.IndexFunc(Attacks, func(a Attack) bool { return a.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no attack %q; there are %s", name, strings.Join(AttackNames(), ", "))
		}
		list = append(list, Attacks[i])
	}
	return list, nil
}

// AttackNames are the names of Attacks.
func AttackNames() []string {
	names := make([]string, len(Attacks))
	for i, a := range Attacks {
		names[i] = a.Name
	}
	return names
}

type fields map[string]any

func chatAttack(body fields) (string, []byte) {
	body["model"] = clusterModel
	return EndpointChat, encoded(body)
}

func completionAttack(body fields) (string, []byte) {
	body["model"] = clusterModel
	return EndpointCompletions, encoded(body)
}

func userSays(text string) []fields { return []fields{{"role": "user", "content": text}} }

// longText has so many words, and no prefix with another client's or turn's.
func longText(words, client, turn int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d-%d", client, turn)
	for i := range words - 1 {
		fmt.Fprintf(&b, " w%d", (i*7919+client*31+turn)%1000)
	}
	return b.String()
}

func encoded(body fields) []byte {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // the bodies above are texts and numbers
	}
	return text
}
