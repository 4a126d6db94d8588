package local

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"weir/configs"
	"weir/engine/gguf"
	"weir/tokenizer"
	"weir/tokenizer/chat"
	"weir/tokenizer/family"
)

// Template is how a model's messages become a prompt.
type Template struct {
	*chat.Template                // nil: the model cannot chat
	Family         *family.Family // how the model marks calls and thoughts
	Why            error          // why there is no template
	Note           string         // what the operator should know
}

// maxTemplateBytes bounds --chat-template's file.
const maxTemplateBytes = 1 << 20

// chosenTemplate reads what --chat-template says: the name of a format that is
// built in, or a file.
func chosenTemplate(choice string, t *tokenizer.Tokenizer) (Template, error) {
	if b, ok := chat.FindBuiltin(choice); ok {
		return builtinTemplate(b, t), nil
	}
	source, err := readTemplateFile(choice)
	if err != nil {
		return Template{}, fmt.Errorf("read chat template: %w; --chat-template takes a file or one of %s",
			err, strings.Join(chat.BuiltinNames(), ", "))
	}
	parsed, err := chat.Parse(source, chat.Options{})
	if err != nil {
		return Template{}, fmt.Errorf("parse chat template %s: %w", choice, err)
	}
	return Template{Template: parsed}, nil
}

func readTemplateFile(path string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	source, err := io.ReadAll(io.LimitReader(f, maxTemplateBytes+1))
	if len(source) > maxTemplateBytes {
		return "", fmt.Errorf("%s has more than %d bytes", path, maxTemplateBytes)
	}
	return string(source), err
}

// builtinTemplate notes the control tokens that the vocabulary lacks: they are
// plain text for the model then.
func builtinTemplate(b chat.Builtin, t *tokenizer.Tokenizer) Template {
	parsed, err := chat.Parse(b.Source, chat.Options{})
	if err != nil {
		return Template{Why: err}
	}
	out := Template{Template: parsed}
	if lacking := lackedTokens(b, t); len(lacking) > 0 {
		out.Note = fmt.Sprintf("the vocabulary has no token %s, which the chat template %s writes: the model reads it as plain text",
			strings.Join(lacking, ", "), b.Name)
	}
	return out
}

func lackedTokens(b chat.Builtin, t *tokenizer.Tokenizer) []string {
	var lacking []string
	for _, text := range b.Tokens {
		if _, ok := t.ID(text); !ok {
			lacking = append(lacking, text)
		}
	}
	return lacking
}

// ownTemplate is the file's template. Where it has none, the vocabulary's control tokens say which format that is built in the model was
// trained on; a base model has them, too, and answers chats poorly in any format.
func ownTemplate(f *gguf.File, t *tokenizer.Tokenizer) Template {
	source, ok, err := f.String("tokenizer.chat_template")
	if err != nil {
		return Template{Why: err}
	}
	if ok {
		parsed, err := chat.Parse(source, chat.Options{})
		if err != nil {
			return Template{Why: fmt.Errorf("parse chat template: %w; give another one with --chat-template", err)}
		}
		return Template{Template: parsed}
	}
	b, ok := chat.BuiltinOf(func(token string) bool { _, ok := t.ID(token); return ok })
	if !ok {
		return Template{Why: errors.New("the file has no chat template; give one with --chat-template, a file or one of " +
			strings.Join(chat.BuiltinNames(), ", "))}
	}
	out := builtinTemplate(b, t)
	out.Note = fmt.Sprintf("the file has no chat template; its vocabulary has the tokens of %s, so chats are rendered as that. "+
		"--chat-template takes another one", b.Name)
	return out
}

// ChooseTemplate prefers the operator's choice, of the template and of the forms of calls and thoughts.
func ChooseTemplate(c configs.Model, f *gguf.File, t *tokenizer.Tokenizer) (Template, error) {
	var out Template
	if choice := c.ChatTemplate; choice == "" {
		out = ownTemplate(f, t)
	} else {
		var err error
		if out, err = chosenTemplate(choice, t); err != nil {
			return Template{}, err
		}
	}
	if out.Template == nil {
		return out, nil
	}
	var err error
	if out.Family, err = family.Named(out.Template, c.Calls, c.Thoughts); err != nil {
		return Template{}, fmt.Errorf("--tool-call-parser and --reasoning-parser: %w", err)
	}
	return out, nil
}
