package provider

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// chatMessage is one message of a chat.
type chatMessage struct {
	Role    string
	Name    string // of one of several users
	Content json.RawMessage
	Refusal string
	Calls   []chatCall `json:"tool_calls"`
	Answers string     `json:"tool_call_id"`

	// Thoughts are what Anthropic's models have thought, with the signatures that vouch for them, as answers have them here.
	Thoughts []struct{ Type, Thinking, Signature, Data string } `json:"thinking_blocks"`
}

type chatCall struct {
	ID       string
	Type     string
	Function struct{ Name, Arguments string }
	Extra    struct {
		Google struct {
			Signature string `json:"thought_signature"`
		}
	} `json:"extra_content"`
}

func (c *chat) readMessages(r *reader) {
	var list []chatMessage
	r.value("messages", &list, "an array of messages")
	names := make(map[string]string) // of functions by the ids of their calls
	for i := range list {
		m, path := &list[i], fmt.Sprintf("messages[%d]", i)
		if m.Name != "" && m.Role != "tool" && !slices.Contains(c.ignored, "messages.name") {
			c.ignored = append(c.ignored, "messages.name")
		}
		switch m.Role {
		case "system", "developer":
			text, err := textOf(path+".content", m.Content)
			r.fail(err)
			if text != "" {
				c.system = append(c.system, text)
			}
		case "user":
			parts, err := contentOf(path+".content", m.Content)
			r.fail(err)
			c.say(false, parts...)
		case "assistant":
			r.fail(c.readAnswer(path, m, names))
		case "tool":
			text, err := textOf(path+".content", m.Content)
			r.fail(err)
			if names[m.Answers] == "" {
				r.fail(wrong(path+".tool_call_id", "%q is the id of no call before it", m.Answers))
			}
			c.say(false, part{kind: resultPart, path: path, id: m.Answers, name: names[m.Answers], text: text})
		default:
			r.fail(lacks(path+".role", "it must be system, developer, user, assistant or tool, and is %q", m.Role))
		}
	}
	if len(c.turns) == 0 {
		r.fail(wrong("messages", "there is none of the user; send at least one"))
	}
}

// say adds parts to the turn of a side.
func (c *chat) say(assistant bool, parts ...part) {
	if len(parts) == 0 {
		return
	}
	if n := len(c.turns); n > 0 && c.turns[n-1].assistant == assistant {
		c.turns[n-1].parts = append(c.turns[n-1].parts, parts...)
		return
	}
	c.turns = append(c.turns, messageGroup{assistant, parts})
}

// readAnswer reads a message of the assistant: thoughts that are vouched for, texts, calls.
func (c *chat) readAnswer(path string, m *chatMessage, names map[string]string) error {
	for _, t := range m.Thoughts {
		if t.Signature != "" || t.Data != "" {
			c.say(true, part{kind: thoughtPart, path: path, text: t.Thinking, signature: t.Signature, redacted: t.Data})
		}
	}
	parts, err := contentOf(path+".content", m.Content)
	if err != nil {
		return err
	}
	if len(parts) == 0 && m.Refusal != "" {
		parts = []part{{kind: textPart, path: path, text: m.Refusal}}
	}
	c.say(true, parts...)
	for i, call := range m.Calls {
		at := fmt.Sprintf("%s.tool_calls[%d]", path, i)
		if call.Type != "function" && call.Type != "" || call.Function.Name == "" {
			return lacks(at, "the provider knows calls of functions, which have a name")
		}
		names[call.ID] = call.Function.Name
		c.say(true, part{
			kind: callPart, path: at, id: call.ID, name: call.Function.Name, arguments: argumentsOf(call.Function.Arguments),
			signature: call.Extra.Google.Signature,
		})
	}
	return nil
}

// argumentsOf are a call's arguments as an object. What is none stands in one.
func argumentsOf(text string) json.RawMessage {
	var fields map[string]json.RawMessage
	switch {
	case strings.TrimSpace(text) == "":
		return json.RawMessage("{}")
	case json.Unmarshal([]byte(text), &fields) == nil && fields != nil:
		return json.RawMessage(text)
	}
	wrapped, err := json.Marshal(map[string]string{"arguments": text})
	if err != nil {
		return json.RawMessage("{}") // a string always has a JSON form
	}
	return wrapped
}

// textOf is a content that can only be text.
func textOf(path string, raw json.RawMessage) (string, error) {
	parts, err := contentOf(path, raw)
	var text strings.Builder
	for i := range parts {
		if err == nil && parts[i].kind != textPart {
			err = lacks(parts[i].path, "only texts can stand here")
		}
		text.WriteString(parts[i].text)
	}
	return text.String(), err
}

// contentPart is a part of a content.
type contentPart struct {
	Type, Text, Refusal string
	Image               struct{ URL string }          `json:"image_url"`
	Audio               struct{ Data, Format string } `json:"input_audio"`
	File                struct {
		Data string `json:"file_data"`
		ID   string `json:"file_id"`
		Name string `json:"filename"`
	}
	Cache json.RawMessage `json:"cache_control"`
}

// contentOf reads a content: null, a text, or parts. Empty texts are left out.
func contentOf(path string, raw json.RawMessage) ([]part, error) {
	var text string
	var list []contentPart
	switch {
	case isNull(raw):
		return nil, nil
	case json.Unmarshal(raw, &text) == nil:
		if text == "" {
			return nil, nil
		}
		return []part{{kind: textPart, path: path, text: text}}, nil
	case json.Unmarshal(raw, &list) != nil:
		return nil, wrong(path, "it must be a string or an array of parts")
	}
	var parts []part
	for i := range list {
		p := part{path: fmt.Sprintf("%s[%d]", path, i), text: list[i].Text}
		if !isNull(list[i].Cache) {
			p.cache = list[i].Cache
		}
		if err := p.read(&list[i]); err != nil {
			return nil, err
		}
		if p.kind != textPart || p.text != "" {
			parts = append(parts, p)
		}
	}
	return parts, nil
}

func (p *part) read(c *contentPart) error {
	switch c.Type {
	case "text":
	case "refusal":
		p.text = c.Refusal
	case "image_url":
		m, ok := mediaOf(c.Image.URL)
		if !ok {
			return wrong(p.path+".image_url.url", "it must be like data:image/png;base64,… or https://…")
		}
		p.kind, p.media = mediaPart, m
	case "input_audio":
		p.kind, p.media = mediaPart, media{kind: "audio/" + c.Audio.Format, data: c.Audio.Data}
	case "file":
		m, ok := mediaOf(c.File.Data)
		if !ok || m.data == "" {
			return lacks(p.path+".file", "send file_data like data:application/pdf;base64,…; files by id are not kept at the provider")
		}
		m.name = c.File.Name
		p.kind, p.media = mediaPart, m
	default:
		return lacks(p.path+".type", "parts are text, image_url, input_audio or file, not %q", c.Type)
	}
	return nil
}

// mediaOf reads a URL: of data, or of a place.
func mediaOf(url string) (media, bool) {
	if rest, ok := strings.CutPrefix(url, "data:"); ok {
		kind, data, ok := strings.Cut(rest, ";base64,")
		return media{kind: kind, data: data}, ok && kind != "" && data != ""
	}
	scheme, rest, ok := strings.Cut(url, "://")
	return media{url: url}, ok && rest != "" && (scheme == "https" || scheme == "http" || scheme == "gs" || scheme == "s3")
}
