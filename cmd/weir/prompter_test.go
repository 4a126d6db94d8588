package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/term"

	"weir/internal/server/local"
)

// typed are the lines of a terminal; those that begin with a tab are pasted.
type typed []string

func (t *typed) ReadLine() (string, error) {
	if len(*t) == 0 {
		return "", io.EOF
	}
	line := (*t)[0]
	*t = (*t)[1:]
	if rest, pasted := strings.CutPrefix(line, "\t"); pasted {
		return rest, term.ErrPasteIndicator
	}
	return line, nil
}

func (*typed) SetPrompt(string) {}

func TestReadMessage(t *testing.T) {
	for _, test := range []struct {
		lines typed
		want  []string
	}{
		{typed{"one", "two"}, []string{"one", "two"}},
		{typed{`first \`, `second \`, "third", "next"}, []string{"first \nsecond \nthird", "next"}},
		{typed{`"""`, "a", "", `b \`, `c"""`, "next"}, []string{"\na\n\nb \\\nc", "next"}},
		{typed{`"""all in one"""`}, []string{"all in one"}},
		{typed{"\tpasted", "\t  two", "and typed", "next"}, []string{"pasted\n  two\nand typed", "next"}},
		{typed{`"""`, "given up"}, []string{""}},
		{typed{`say """ quoted`}, []string{`say """ quoted`}},
	} {
		var got []string
		for lines := test.lines; ; {
			text, err := readMessage(&lines)
			if err != nil {
				break
			}
			got = append(got, text)
		}
		if strings.Join(got, "|") != strings.Join(test.want, "|") {
			t.Errorf("%q are the messages %q, want %q", test.lines, got, test.want)
		}
	}
}

// terminal is a prompter whose model is never asked.
func terminal(t *testing.T) (p *prompter, out, errs *strings.Builder) {
	t.Helper()
	out, errs = new(strings.Builder), new(strings.Builder)
	o := runOptions{topP: 1}
	return &prompter{talk: newConversation(&local.Model{Name: "tiny"}, o, out), out: out, errs: errs}, out, errs
}

func TestChatCommands(t *testing.T) {
	file := filepath.Join(t.TempDir(), "chat.json")
	other := filepath.Join(t.TempDir(), "notes.json")
	if err := os.WriteFile(other, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, out, errs := terminal(t)
	p.talk.history = append(p.talk.history, local.Message{Role: "user", Content: "Hi"}, local.Message{Role: "assistant", Content: "Hello"})
	for _, test := range []struct{ line, out, errs string }{
		{"/set temperature 0.5", "", ""},
		{"/set top_p 0.9", "", ""},
		{"/set --max-tokens 5", "", ""},
		{"/set verbose", "", ""},
		{"/set", "  temperature  0.5      sampling temperature; 0 always takes the most probable token\n" +
			"  top-p        0.9      sample from the most probable tokens whose probabilities add up to this\n" +
			"  top-k        0        sample from this many of the most probable tokens; 0 is all\n" +
			"  max-tokens   5        longest answer; 0 is the rest of the context\n" +
			"  seed         0        the same seed gives the same answer; 0 takes a new one each time\n" +
			"  verbose      true     counts and tokens per second after each answer\n" +
			"  plain        false    answers as they come, without showing their Markdown\n", ""},
		{"/set temperature", "  temperature 0.5\n", ""},
		{"/set temperature 9", "", "weir: --temperature 9: it takes a number from 0 to 2\n"},
		{"/set seed x", "", "weir: seed \"x\": it takes a whole number, 0 or more\n"},
		{"/set colour red", "", "weir: \"colour\" is not a setting; they are temperature, top-p, top-k, max-tokens, seed, verbose, plain, and /system for the system message\n"},
		{"/system Be short.", "", ""},
		{"/system", "Be short.\n", ""},
		{"/save " + file, "3 messages are in " + file + "\n", ""},
		{"/save", "3 messages are in " + file + "\n", ""},
		{"/save " + other, "", "weir: save " + other + ": there is such a file, and this conversation is not from it; choose another name\n"},
		{`/system ""`, "", ""},
		{"/undo", "", ""},
		{"/undo", "", "weir: there is no message to forget\n"},
		{"/retry", "", "weir: there is no message to answer again\n"},
		{"/set temperature 0", "", ""},
		{"/load " + file, "3 messages from " + file + "\n", ""},
		{"/set temperature", "  temperature 0.5\n", ""},
		{"/system", "Be short.\n", ""},
		{"/clear", "", ""},
		{"/load " + other, "", "weir: load " + other + `: it is not a saved conversation: it has no "messages"` + "\n"},
		{"/load nothing.json", "", "weir: load nothing.json: no such file or directory\n"},
		{"/cler", "", "weir: \"/cler\" is not a command; did you mean /clear? (a message that begins with / is written with a space before it)\n"},
		{"/clear now", "", "weir: /clear takes nothing behind it; it has \"now\"\n"},
	} {
		out.Reset()
		errs.Reset()
		if p.take(test.line) {
			t.Fatalf("%s leaves", test.line)
		}
		if out.String() != test.out || errs.String() != test.errs {
			t.Errorf("%s prints\n%s%s, want\n%s%s", test.line, out, errs, test.out, test.errs)
		}
	}
	if !p.take("/bye") {
		t.Error("/bye stays")
	}
	if got := len(p.talk.history); got != 1 || p.talk.history[0].Content != "Be short." {
		t.Errorf("after /clear there are %d messages: %v", got, p.talk.history)
	}
}

func TestSavedChatsOfOthersAreRefusedByName(t *testing.T) {
	for text, want := range map[string]string{
		`[]`:             "not a saved conversation",
		`{"messages":1}`: "not a saved conversation",
		`{"messages":[{"role":"tool","content":"x"}]}`:                                          `messages[0] has the role "tool"`,
		`{"messages":[{"role":"user","content":"x"},{"role":"system","content":"x"}]}`:          "messages[1] is a system message",
		`{"messages":[{"role":"user","content":[{"type":"text"}]}]}`:                            "has a JSON array where another type belongs",
		`{"messages":[{"role":"user","content":"` + strings.Repeat("x", maxSavedBytes) + `"}]}`: "more than 16777216 bytes",
	} {
		if _, err := parseSaved([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s gives %v, want %s", text, err, want)
		}
	}
	if _, err := parseSaved([]byte(`{"model":"any","messages":[{"role":"user","content":"Hi"}],"stream":true}`)); err != nil {
		t.Errorf("the body of another client's chat: %v", err)
	}
}

// FuzzParseSaved: no file ends the process, and what is taken can be answered.
func FuzzParseSaved(f *testing.F) {
	f.Add([]byte(`{"messages":[{"role":"system","content":"a"},{"role":"user","content":"b"}],"temperature":0.5,"top_k":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		chat, err := parseSaved(data)
		if err != nil {
			return
		}
		if o := chat.over(runOptions{}); o.system != "" && chat.Messages[0].Role != "system" {
			t.Errorf("%q has the system message %q", data, o.system)
		}
	})
}
