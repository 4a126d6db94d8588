package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"weir/internal/console"
	"weir/internal/outfile"
	"weir/internal/server/local"
)

// savedChat is a conversation in a file: the body of a chat completion that would go on with it.
type savedChat struct {
	Model       string         `json:"model"`
	Messages    []savedMessage `json:"messages"`
	Temperature *float32       `json:"temperature,omitempty"`
	TopP        *float32       `json:"top_p,omitempty"`
	TopK        *int           `json:"top_k,omitempty"`
	MaxTokens   *int           `json:"max_tokens,omitempty"`
	Seed        *uint64        `json:"seed,omitempty"`
}

type savedMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// maxSavedBytes bounds what load reads; no context is that long.
const maxSavedBytes = 16 << 20

func (p *prompter) save(file string) error {
	if file == "" {
		file = p.saved
	}
	if file == "" {
		return errors.New("/save needs a file: /save chat.json")
	}
	if _, err := os.Lstat(file); file != p.saved && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("save %s: there is such a file, and this conversation is not from it; choose another name", console.Printable(file))
	}
	o := p.talk.options
	chat := savedChat{Model: p.talk.model.Name, Messages: []savedMessage{}, Temperature: &o.temperature, TopP: &o.topP, TopK: &o.topK}
	if o.maxTokens > 0 {
		chat.MaxTokens = &o.maxTokens
	}
	if o.seed > 0 {
		chat.Seed = &o.seed
	}
	for _, m := range p.talk.history {
		chat.Messages = append(chat.Messages, savedMessage(m))
	}
	data, err := json.MarshalIndent(chat, "", "  ")
	if err != nil {
		return fmt.Errorf("save %s: %w", console.Printable(file), err)
	}
	if err := outfile.WriteBytes(file, 0o600, append(data, '\n')); err != nil {
		return err
	}
	p.saved = file
	_, err = fmt.Fprintf(p.out, "%d messages are in %s\n", len(chat.Messages), console.Printable(file))
	return err
}

func (p *prompter) load(file string) error {
	if file == "" {
		return errors.New("/load needs a file: /load chat.json")
	}
	chat, err := readSaved(file)
	if err != nil {
		return fmt.Errorf("load %s: %w", console.Printable(file), err)
	}
	o := chat.over(p.talk.options)
	if err := o.check(); err != nil {
		return fmt.Errorf("load %s: %w", console.Printable(file), err)
	}
	history := make([]local.Message, len(chat.Messages))
	for i, m := range chat.Messages {
		history[i] = local.Message(m)
	}
	p.talk.resume(o, history)
	p.saved = file
	_, err = fmt.Fprintf(p.out, "%d messages from %s\n", len(history), console.Printable(file))
	return err
}

// readSaved reads a conversation that save wrote, or a person did.
func readSaved(file string) (savedChat, error) {
	f, err := os.Open(file)
	if err != nil {
		return savedChat{}, errors.Unwrap(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSavedBytes+1))
	if err != nil {
		return savedChat{}, err
	}
	return parseSaved(data)
}

func parseSaved(data []byte) (savedChat, error) {
	if len(data) > maxSavedBytes {
		return savedChat{}, fmt.Errorf("it has more than %d bytes", maxSavedBytes)
	}
	var chat savedChat
	if err := json.Unmarshal(data, &chat); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return savedChat{}, fmt.Errorf("it is not a saved conversation: byte %d has a JSON %s where another type belongs; each of its messages has a role and a content, both texts", wrong.Offset, wrong.Value)
		}
		return savedChat{}, fmt.Errorf("it is not a saved conversation: %w", err)
	}
	if chat.Messages == nil {
		return savedChat{}, errors.New(`it is not a saved conversation: it has no "messages"`)
	}
	for i, m := range chat.Messages {
		switch {
		case m.Role == "system" && i == 0, m.Role == "user", m.Role == "assistant":
		case m.Role == "system":
			return savedChat{}, fmt.Errorf("messages[%d] is a system message; only the first may be one", i)
		default:
			return savedChat{}, fmt.Errorf("messages[%d] has the role %.40q; it must be system, user or assistant", i, m.Role)
		}
	}
	return chat, nil
}

// over are the options with the settings of the file.
func (c savedChat) over(o runOptions) runOptions {
	set := func(to *float32, from *float32) {
		if from != nil {
			*to = *from
		}
	}
	set(&o.temperature, c.Temperature)
	set(&o.topP, c.TopP)
	if c.TopK != nil {
		o.topK = *c.TopK
	}
	if c.MaxTokens != nil {
		o.maxTokens = *c.MaxTokens
	}
	if c.Seed != nil {
		o.seed = *c.Seed
	}
	o.system = ""
	if len(c.Messages) > 0 && c.Messages[0].Role == "system" {
		o.system = c.Messages[0].Content
	}
	return o
}
