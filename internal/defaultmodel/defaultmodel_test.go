package defaultmodel

import (
	"fmt"
	"strings"
	"testing"
)

func TestQuestionsAreConversationsThatEndWithTheUser(t *testing.T) {
	qas := Questions()
	if len(qas) < 3000 {
		t.Fatalf("%d questions, want at least 3000", len(qas))
	}
	for _, qa := range qas {
		for i, m := range qa.Messages {
			role := "assistant"
			if (len(qa.Messages)-1-i)%2 == 0 {
				role = "user"
			}
			if m.Role != role || m.Content == "" {
				t.Errorf("topic %q, message %d: role %q, content %q; want role %q and a text", qa.Topic, i, m.Role, m.Content, role)
			}
		}
		if strings.Contains(qa.Answer, "<|im_start|>") || strings.TrimSpace(qa.Answer) != qa.Answer {
			t.Errorf("topic %q: answer %q is not plain text", qa.Topic, qa.Answer)
		}
	}
}

func TestOneQuestionHasOneAnswer(t *testing.T) {
	answers := map[string]string{}
	for _, qa := range Questions() {
		key := fmt.Sprintf("%q", qa.Messages)
		if other, ok := answers[key]; ok && other != qa.Answer {
			t.Errorf("%s has the answers %q and %q", key, other, qa.Answer)
		}
		answers[key] = qa.Answer
	}
}

// Every sum, difference, product and quotient of the stated ranges is there,
// and right.
func TestSumsAreCompleteAndRight(t *testing.T) {
	seen := map[string]bool{}
	for _, qa := range Questions() {
		var a, b, r int
		var op rune
		if n, _ := fmt.Sscanf(qa.Answer, "%d %c %d = %d.", &a, &op, &b, &r); n != 4 {
			continue
		}
		want := map[rune]int{'+': a + b, '-': a - b, 'x': a * b}
		if op == '/' && b != 0 && a%b == 0 {
			want['/'] = a / b
		}
		if w, ok := want[op]; !ok || w != r {
			t.Errorf("%q answers %q", qa.Question(), qa.Answer)
		}
		seen[qa.Answer] = true
	}
	for a := range 21 {
		for b := range 21 {
			for _, s := range []string{fmt.Sprintf("%d + %d = %d.", a, b, a+b), fmt.Sprintf("%d - %d = %d.", a, b, a-b)} {
				if !seen[s] {
					t.Errorf("%q is not asked for", s)
				}
			}
		}
	}
	for a := range 13 {
		for b := range 13 {
			if s := fmt.Sprintf("%d x %d = %d.", a, b, a*b); !seen[s] {
				t.Errorf("%q is not asked for", s)
			}
		}
	}
}

// The tasks cover every topic, and ask for what their answers show.
func TestTasksAreOfEveryTopic(t *testing.T) {
	topics := map[string]int{}
	for _, task := range Tasks() {
		topics[task.Topic]++
		if (task.Topic == "tools call") != (len(task.Calls) > 0) {
			t.Errorf("%s: %d calls", task.Topic, len(task.Calls))
		}
	}
	for _, topic := range []string{"tools call", "tools result", "tools unused", "json object", "json schema"} {
		if topics[topic] < 20 {
			t.Errorf("%d tasks of topic %q, want at least 20", topics[topic], topic)
		}
	}
}

func TestBrokenTasksAreRefused(t *testing.T) {
	for name, line := range map[string]string{
		"not JSON": "{", "unknown key": `{"topic":"a","answer":"b"}`, "no request": `{"topic":"a","content":"b"}`,
		"no answer": `{"topic":"a","request":{}}`, "two answers": `{"topic":"a","request":{},"content":"b","calls":[{"name":"c"}]}`,
	} {
		if got, err := readTasks(strings.NewReader(line)); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestBrokenQuestionsAreRefused(t *testing.T) {
	for _, c := range []struct{ name, lines, want string }{
		{"not JSON", "{", "read record 1: unexpected EOF"},
		{"unknown key", `{"topic":"a","questions":["b"],"answer":"c"}` + "\n" + `{"answr":"c"}`,
			`read record 2: json: unknown field "answr"`},
		{"no question", `{"topic":"a","answer":"c"}`, `read record 1: topic "a" has no question or no answer`},
		{"no answer", `{"topic":"a","questions":["b"]}`, `read record 1: topic "a" has no question or no answer`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := readQuestions(strings.NewReader(c.lines)); err == nil || err.Error() != c.want {
				t.Errorf("error %v, want %s", err, c.want)
			}
		})
	}
}

func TestCallersOwnTheirCopyOfTheFile(t *testing.T) {
	data := GGUF()
	if string(data[:4]) != "GGUF" || int64(len(data)) != Reader().Size() {
		t.Fatalf("begins with %q, %d bytes, reader has %d", data[:4], len(data), Reader().Size())
	}
	clear(data)
	if again := GGUF(); string(again[:4]) != "GGUF" {
		t.Error("a caller's change reached the embedded file")
	}
}
