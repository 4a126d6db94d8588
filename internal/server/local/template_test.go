package local

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/configs"
	"weir/engine/gguf"
	"weir/tokenizer"
	"weir/tokenizer/chat"
)

// vocabularyFile is a file of nothing but a small vocabulary, with the entries
// given, and a chat template unless that is "".
func vocabularyFile(t *testing.T, source string, tokens ...string) (*gguf.File, *tokenizer.Tokenizer) {
	t.Helper()
	tokens = append([]string{"<unk>", "<s>", "</s>", "a"}, tokens...)
	b := &gguf.Builder{}
	b.Set("tokenizer.ggml.model", "llama")
	b.Set("tokenizer.ggml.tokens", tokens)
	b.Set("tokenizer.ggml.scores", make([]float32, len(tokens)))
	if source != "" {
		b.Set("tokenizer.chat_template", source)
	}
	var data bytes.Buffer
	if _, err := b.WriteTo(&data); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(bytes.NewReader(data.Bytes()), int64(data.Len()))
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.New(f.Value)
	if err != nil {
		t.Fatal(err)
	}
	return f, tok
}

// TestChatTemplateChoice: the operator's choice first, then the file's own,
// then the format that the vocabulary was made for.
func TestChatTemplateChoice(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.jinja")
	if err := os.WriteFile(file, []byte(`mine: {{ messages[0].content }}`), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "broken.jinja")
	if err := os.WriteFile(broken, []byte(`{% if %}`), 0o600); err != nil {
		t.Fatal(err)
	}
	marks := []string{"<|im_start|>", "<|im_end|>"}
	for _, tc := range []struct {
		name, choice, own string
		tokens            []string
		text              string // "": the model cannot chat
		note, why         string // parts of them
	}{
		{name: "own", own: `own: {{ messages[0].content }}`, text: "own: hi"},
		{name: "a file instead of the own", choice: file, own: `own`, text: "mine: hi"},
		{name: "a format by name", choice: "chatml", own: `own`, tokens: marks, text: "<|im_start|>user\nhi<|im_end|>\n"},
		{name: "a format whose tokens are missing", choice: "chatml", text: "<|im_start|>user\nhi<|im_end|>\n",
			note: "no token <|im_start|>, <|im_end|>"},
		{name: "ChatML by its tokens", tokens: marks, text: "<|im_start|>user\nhi<|im_end|>\n", note: "tokens of chatml, so"},
		{name: "Gemma's by its tokens", tokens: []string{"<start_of_turn>", "<end_of_turn>"}, text: "<s><start_of_turn>user\nhi<end_of_turn>\n",
			note: "tokens of gemma, so"},
		{name: "Gemma 4's by its tokens", tokens: []string{"<|turn>", "<turn|>", "<|channel>", "<channel|>"}, text: "<s><|turn>user\nhi<turn|>\n",
			note: "tokens of gemma4, so"},
		{name: "nothing to go by", why: "--chat-template"},
		{name: "half of the tokens", tokens: marks[:1], why: "--chat-template"},
		{name: "own one is broken", own: `{% if %}`, tokens: marks, why: "parse chat template"},
		{name: "chosen one is broken", choice: broken, why: "parse chat template " + broken},
		{name: "chosen one is missing", choice: "nonsense", why: "one of chatml, gemma, gemma4, llama2, llama3, zephyr"},
		{name: "chosen one is a folder", choice: t.TempDir(), why: "not a regular file"},
	} {
		f, tok := vocabularyFile(t, tc.own, tc.tokens...)
		got, err := ChooseTemplate(configs.Model{ChatTemplate: tc.choice}, f, tok)
		if err == nil {
			err = got.Why
		}
		if tc.text == "" {
			if err == nil || !strings.Contains(err.Error(), tc.why) || got.Template != nil {
				t.Errorf("%s: got %v, want an error with %q", tc.name, err, tc.why)
			}
			continue
		}
		if err != nil || got.Note == "" != (tc.note == "") || !strings.Contains(got.Note, tc.note) {
			t.Errorf("%s: note %q, error %v, want a note with %q", tc.name, got.Note, err, tc.note)
			continue
		}
		spans, err := got.Render(chat.Input{Messages: chat.Messages(chat.Message{Role: "user", Content: "hi"}), BOSToken: "<s>",
			EOSToken: "</s>"})
		if err != nil || chat.Text(spans) != tc.text {
			t.Errorf("%s: rendered %q, %v, want %q", tc.name, chat.Text(spans), err, tc.text)
		}
	}
}

// TestFormsOfCallsAndThoughtsAreNamedByHand: names of vLLM's, too; a wrong one lists those that there are.
func TestFormsOfCallsAndThoughtsAreNamedByHand(t *testing.T) {
	const own = `{{ messages[0].content }}<think></think>{% if tools %}<tool_call>{{ tools | tojson }}{% endif %}`
	f, tok := vocabularyFile(t, own)
	for _, tc := range []struct {
		calls, thoughts string
		family, end     string
		thinks          bool
		why             string
	}{
		{family: "hermes", end: "</think>", thinks: true},
		{calls: "llama3_json", family: "llama3", end: "</think>", thinks: true},
		{calls: "glm4", thoughts: "none", family: "glm4"},
		{thoughts: "mistral", family: "hermes", end: "[/THINK]", thinks: true},
		{calls: "openai", family: "harmony", end: "<|end|>", thinks: true},
		{calls: "lama", why: `no form of calls is called "lama"; there are apertus,`},
		{calls: "openai", thoughts: "none", why: `the thoughts of harmony are messages of their own`},
		{thoughts: "o1", why: `no form of thoughts is called "o1"; there are apertus,`},
	} {
		got, err := ChooseTemplate(configs.Model{Calls: tc.calls, Thoughts: tc.thoughts}, f, tok)
		if tc.why != "" {
			if err == nil || !strings.Contains(err.Error(), tc.why) || !strings.Contains(err.Error(), "--tool-call-parser") {
				t.Errorf("%+v: %v", tc, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, end := got.Family.ThoughtMarkers(); got.Family.Name != tc.family || end != tc.end || got.Family.Thinks != tc.thinks {
			t.Errorf("%+v: %s, %q, %v", tc, got.Family.Name, end, got.Family.Thinks)
		}
	}
}
