package pages

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
)

// A stranger opens / in a browser and asks something.
func TestChatStreams(t *testing.T) {
	weir := serve(t)
	p := open(t, weir, "/")
	p.sees("Ask weir-default something")
	p.ask("What is a weir?")
	answer := p.answered()
	if !strings.Contains(answer, "first token") || len(answer) < 60 {
		t.Errorf("the answer reads %q", answer)
	}
	p.click("Show the figures and tokens")
	p.sees("Gaps between tokens")
	p.do(chromedp.Reload())
	p.sees("What is a weir?") // kept in the browser
}

// The server notices that the answer is not wanted any more, and what has come stays.
func TestStop(t *testing.T) {
	gone := make(chan struct{})
	p := open(t, front(t, serve(t), map[string]http.HandlerFunc{chats: func(w http.ResponseWriter, r *http.Request) {
		s := newStream(w)
		for range 5 {
			s.text("drop ")
		}
		<-r.Context().Done()
		close(gone)
	}}), "/playground/")
	p.ask("Go on")
	p.sees("drop drop drop")
	p.click("Stop")
	<-gone
	p.sees("stopped")
	if answer := p.answered(); !strings.Contains(answer, "drop drop drop drop drop") {
		t.Errorf("the stopped answer reads %q", answer)
	}
}

// A broken connection is told, what has come stays, and asking again works.
func TestDroppedConnection(t *testing.T) {
	var mu sync.Mutex
	asks, seen := 0, make(chan struct{})
	p := open(t, front(t, serve(t), map[string]http.HandlerFunc{chats: func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		asks++
		n := asks
		mu.Unlock()
		s := newStream(w)
		s.text("half of it")
		if n == 1 {
			<-seen
			panic(http.ErrAbortHandler)
		}
		s.text(", and the rest")
		s.end("stop")
	}}), "/playground/", "net::ERR")
	p.ask("Tell me")
	p.sees("half of it")
	close(seen)
	p.sees("The answer broke off")
	p.click("Try again")
	p.sees("half of it, and the rest")
	p.sees("2 / 2") // the broken one is a branch
}

// Where the server does not answer at all the page says so.
func TestServerIsGone(t *testing.T) {
	p := open(t, front(t, serve(t), map[string]http.HandlerFunc{chats: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }}),
		"/playground/", "net::ERR")
	p.ask("Hello")
	p.sees("the server does not answer")
}

func TestWrongKey(t *testing.T) {
	const right = "sk-0123456789-right"
	weir := serve(t, "--api-key", right)
	p := open(t, weir, "/playground/", "401")
	p.sees("This server asks who calls")
	p.types("input[name=key]", "sk-0123456789-wrong\r")
	p.sees("The server does not know this key")
	p.script("document.querySelector('input[name=key]').select()")
	p.types("input[name=key]", right+"\r")
	p.sees("Ask weir-default something")
	p.ask("What is a weir?")
	p.answered()
	if kept := evaluate[string](p, "JSON.stringify(localStorage) + document.cookie"); strings.Contains(kept, right) {
		t.Errorf("the key stays in the browser: %s", kept)
	}
	p.click("Code")
	p.sees("$WEIR_API_KEY")
	if strings.Contains(evaluate[string](p, "document.body.innerText"), right) {
		t.Error("the code has the key itself")
	}
	p.click("Close")
	p.click("Sign out: forget the key")
	p.sees("This server asks who calls")
}

// Changing a turn makes a branch; both stay, and each request has the turns of its own branch alone.
func TestBranch(t *testing.T) {
	var mu sync.Mutex
	var last asked
	p := open(t, front(t, serve(t), map[string]http.HandlerFunc{chats: func(w http.ResponseWriter, r *http.Request) {
		a := read(t, r)
		mu.Lock()
		last = a
		mu.Unlock()
		s := newStream(w)
		s.text("answer to " + a.Messages[len(a.Messages)-1].Content)
		s.end("stop")
	}}), "/playground/")
	p.ask("first")
	p.sees("answer to first")
	p.ask("second")
	p.sees("answer to second")
	p.script(`document.querySelectorAll("[aria-label='Change and send again']")[0].click()`)
	p.wait("document.querySelector('.editor textarea')")
	p.script("document.querySelector('.editor textarea').select()")
	p.types(".editor textarea", "other")
	p.click("Send as a branch")
	p.sees("answer to other")
	p.sees("2 / 2")
	mu.Lock()
	if said := last.said(); said != "user: other" {
		t.Errorf("the branch was asked as %q", said)
	}
	mu.Unlock()
	p.click("Branch before")
	p.sees("answer to second")
	if text := evaluate[string](p, "document.querySelector('.turns').innerText"); strings.Contains(text, "answer to other") {
		t.Errorf("both branches are shown: %s", text)
	}
	p.ask("third")
	p.sees("answer to third")
	mu.Lock()
	defer mu.Unlock()
	if said := last.said(); said != "user: first\nassistant: answer to first\nuser: second\nassistant: answer to second\nuser: third" {
		t.Errorf("the first branch went on as %q", said)
	}
}

// A call of a tool is shown, its result typed in and sent back.
func TestToolCall(t *testing.T) {
	var mu sync.Mutex
	var last asked
	p := open(t, front(t, serve(t), map[string]http.HandlerFunc{chats: func(w http.ResponseWriter, r *http.Request) {
		a := read(t, r)
		mu.Lock()
		last = a
		mu.Unlock()
		s := newStream(w)
		if a.Messages[len(a.Messages)-1].Role == "tool" {
			s.text("It is " + a.Messages[len(a.Messages)-1].Content)
			s.end("stop")
			return
		}
		s.send(map[string]any{"tool_calls": []any{map[string]any{"index": 0, "id": "call_1", "function": map[string]any{"name": "get_weather", "arguments": `{"city":`}}}}, nil)
		s.send(map[string]any{"tool_calls": []any{map[string]any{"index": 0, "function": map[string]any{"arguments": `"Paris"}`}}}}, nil)
		s.end("tool_calls")
	}}), "/playground/")
	p.wait("document.querySelector('#settings')")
	p.click("Tools")
	p.click("Add a tool")
	p.wait("document.querySelector('dialog[open] input')")
	p.types("dialog[open] input", "get_weather")
	p.click("Save")
	p.ask("Weather?")
	p.sees("get_weather")
	p.sees("Result of get_weather")
	p.types(".call textarea", "raining")
	p.click("Send the result")
	p.sees("It is raining")
	mu.Lock()
	defer mu.Unlock()
	if m := last.Messages[len(last.Messages)-1]; m.ToolCallID != "call_1" || len(last.Tools) != 1 {
		t.Errorf("the result went as %+v, with %d tools", m, len(last.Tools))
	}
}

// The queue's place and the prompt's progress are shown before the first token.
func TestWaitingIsTold(t *testing.T) {
	next := make(chan struct{})
	p := open(t, front(t, serve(t), map[string]http.HandlerFunc{chats: func(w http.ResponseWriter, _ *http.Request) {
		s := newStream(w)
		for _, line := range []string{": queue position=3\n", ": prefill 64/159 cached=16\n"} {
			_, _ = w.Write([]byte(line))
			w.(http.Flusher).Flush()
			<-next
		}
		s.text("done")
		s.end("stop")
	}}), "/playground/")
	p.ask("Hello")
	p.sees("In the queue, place 3")
	next <- struct{}{}
	p.sees("Reading the prompt: 64 of 159 tokens, 16 from the cache")
	next <- struct{}{}
	p.sees("3 of 7 cached")
}

// Tokens are shown with their probabilities, of a real answer.
func TestTokens(t *testing.T) {
	p := open(t, serve(t), "/playground/")
	p.click("Tokens")
	p.click("Log-probabilities")
	p.ask("What is a weir?")
	p.answered()
	p.click("Show the figures and tokens")
	p.sees("Perplexity")
	if n := evaluate[int](p, "document.querySelectorAll('.token').length"); n < 5 {
		t.Errorf("%d tokens are shown", n)
	}
	if n := evaluate[int](p, "document.querySelectorAll('.alternatives tbody tr').length"); n < 2 {
		t.Errorf("%d alternatives are shown", n)
	}
}

// Thoughts are open while there is nothing else, and folded from the answer's first word on; what was removed comes back by Undo.
func TestThoughtsAndUndo(t *testing.T) {
	next := make(chan struct{})
	p := open(t, front(t, serve(t), map[string]http.HandlerFunc{chats: func(w http.ResponseWriter, _ *http.Request) {
		s := newStream(w)
		s.send(map[string]any{"reasoning_content": "let me see"}, nil)
		<-next
		s.text("the answer")
		s.end("stop")
	}}), "/playground/")
	p.ask("Why?")
	p.wait("document.querySelector('.thoughts[open]')?.innerText.includes('let me see')")
	next <- struct{}{}
	p.answered()
	p.wait("document.querySelector('.thoughts:not([open])')")
	p.click("Remove this turn and what follows")
	p.wait("!document.querySelector('.turn.assistant')")
	p.click("Undo")
	p.sees("the answer")
	p.script("document.querySelector('.conversations li .button').click()")
	p.sees("The conversation was deleted")
	p.wait("document.querySelectorAll('.conversations li').length === 0")
	p.click("Undo")
	p.wait("document.querySelectorAll('.conversations li').length === 1")
}

// Several answers to one turn are branches.
func TestSeveralAnswers(t *testing.T) {
	p := open(t, serve(t), "/playground/")
	p.click("More fields")
	p.wait("document.querySelector('#settings .tall textarea')")
	p.types("#settings .tall textarea", `{"n": 3}`)
	p.ask("What is a weir?")
	p.answered()
	p.sees("1 / 3")
	p.click("Next branch")
	p.sees("2 / 3")
	if answer := p.answered(); len(answer) < 20 {
		t.Errorf("the second answer reads %q", answer)
	}
}
