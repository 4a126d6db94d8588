package bench

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Attack is what a tenant may send that costs a server more than it costs the tenant.
type Attack struct {
	Name    string
	About   string
	Clients int // at a time; each sends its next request when the last is answered

	request func(words, client, turn int) (path string, body []byte)
}

// Attacks are those that weir is measured beside.
var Attacks = []Attack{
	{"prompts", "six long prompts", 6, func(words, client, turn int) (string, []byte) {
		return chatAttack(fields{"messages": userSays(longText(words, client, turn)), "max_tokens": 1})
	}},
	{"choices", "two requests with n 128", 2, func(_, client, turn int) (string, []byte) {
		return chatAttack(fields{"messages": userSays(fmt.Sprint("Count ", client, turn)), "n": 128, "max_tokens": 32, "ignore_eos": true})
	}},
	{"echo", "four prompts echoed with log-probabilities", 4, func(words, client, turn int) (string, []byte) {
		return completionAttack(fields{"prompt": longText(words, client, turn), "echo": true, "logprobs": 5, "max_tokens": 1})
	}},
	{"allowed", "four requests with 40,000 allowed_token_ids", 4, func(_, client, turn int) (string, []byte) {
		ids := make([]int, 40_000)
		for i := range ids {
			ids[i] = i
		}
		return chatAttack(fields{"messages": userSays(fmt.Sprint("Say ", client, turn)), "allowed_token_ids": ids, "max_tokens": 16, "ignore_eos": true})
	}},
	{"streams", "thirty streams of 200 tokens", 30, func(_, client, turn int) (string, []byte) {
		return chatAttack(fields{"messages": userSays(fmt.Sprint("Tell story ", client, turn)), "stream": true, "max_tokens": 200, "ignore_eos": true})
	}},
	{"tokenise", "sixteen texts of 900 kB for /tokenize", 16, func(_, client, turn int) (string, []byte) {
		return "/tokenize", encoded(fields{"model": clusterModel, "prompt": longText(150_000, client, turn)})
	}},
	{"templates", "eight chats of 4,096 messages for /apply-template", 8, func(_, client, turn int) (string, []byte) {
		messages := make([]fields, 4096)
		for i := range messages {
			messages[i] = fields{"role": []string{"user", "assistant"}[i%2], "content": fmt.Sprint("word ", client, turn, i)}
		}
		return "/apply-template", encoded(fields{"model": clusterModel, "messages": messages})
	}},
	{"schemas", "eight new schemas of 300 properties", 8, func(_, client, turn int) (string, []byte) {
		properties := fields{}
		for i := range 300 {
			properties[fmt.Sprintf("p%d_%d_%d", client, turn, i)] = fields{"type": "string", "pattern": fmt.Sprintf("^[a-z]{1,%d}[0-9]{2,9}$", 20+i%40)}
		}
		return chatAttack(fields{"messages": userSays("Answer."), "max_tokens": 16, "response_format": fields{"type": "json_schema",
			"json_schema": fields{"name": "large", "schema": fields{"type": "object", "properties": properties}}}})
	}},
	{"regex", "a regular expression with counted classes", 1, func(_, client, turn int) (string, []byte) {
		return chatAttack(fields{"messages": userSays("Answer."), "max_tokens": 64, "structured_outputs": fields{
			"regex": fmt.Sprintf(`(\p{L}{1,%d}|[^a-z]{3,700}){2,60}`, 500+client+turn)}})
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
