package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"weir/internal/console"
	"weir/internal/server/local"
)

// openTerminal opens a terminal whose other side, what a person sees and types, is person.
func openTerminal(t *testing.T) (person, terminal *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("there are no pseudo terminals: ", err)
	}
	t.Cleanup(func() { person.Close() })
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	return person, terminal
}

// watched collects what a person sees, and waits for texts in it.
type watched struct {
	mu   sync.Mutex
	cond *sync.Cond
	text bytes.Buffer
	end  bool
}

func watch(person *os.File) *watched {
	s := new(watched)
	s.cond = sync.NewCond(&s.mu)
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := person.Read(buf)
			s.mu.Lock()
			s.text.Write(buf[:n])
			s.end = err != nil
			s.mu.Unlock()
			s.cond.Broadcast()
			if err != nil {
				return
			}
		}
	}()
	return s
}

// shows waits until text is there, and gives all that was shown.
func (s *watched) shows(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !strings.Contains(s.text.String(), text) && !s.end {
		s.cond.Wait()
	}
	return s.text.String()
}

// newTerminalPrompter is a prompter at a terminal, whose model is never asked.
func newTerminalPrompter(t *testing.T, terminal *os.File) *prompter {
	t.Helper()
	p := &prompter{talk: newConversation(&local.Model{Name: "tiny"}, runOptions{topP: 1}, terminal), in: terminal, out: terminal, errs: terminal}
	p.lines = term.NewTerminal(terminal, firstPrompt)
	return p
}

// TestWhatIsTypedDuringAnAnswerWaits types while an answer is written: it shows in the next message, and not in the answer.
func TestWhatIsTypedDuringAnAnswerWaits(t *testing.T) {
	person, terminal := openTerminal(t)
	seen := watch(person)
	p := newTerminalPrompter(t, terminal)
	restore, err := console.Quiet(terminal)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(terminal, "an ")
	if _, err := person.WriteString("/set se\x7fed 7\r"); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(terminal, "answer")
	seen.shows("answer")
	restore()
	if got := seen.shows("answer"); !strings.Contains(got, "an answer") {
		t.Errorf("what is typed stands in the answer: %q", got)
	}
	text, err := p.read()
	if err != nil || text != "/set sed 7" {
		t.Errorf("the next message is %q (%v)", text, err)
	}
}

// TestATerminalsConversation leaves by a command, and a wrong one does not end it.
func TestATerminalsConversation(t *testing.T) {
	person, terminal := openTerminal(t)
	seen := watch(person)
	p := newTerminalPrompter(t, terminal)
	left := make(chan error)
	go func() { left <- p.loop() }()
	seen.shows(">>> ")
	for _, line := range []string{"/nothing\r", "/set se\xe9d 7\r", "/set see\xc3\r", "/set \uFFFD\r", "\x1b[200~/set top-k\x1b[201~ 5\r", "/set\r"} {
		if _, err := person.WriteString(line); err != nil {
			t.Fatal(err)
		}
	}
	if got := seen.shows("top-k        5"); !strings.Contains(got, `"/nothing" is not a command`) {
		t.Errorf("a wrong command is not refused: %q", got)
	} else if !strings.Contains(got, `"se?d" is not a setting`) || !strings.Contains(got, `"see?" is not a setting`) || !strings.Contains(got, `"?" is not a setting`) {
		t.Errorf("keys that are not UTF-8: %q", got)
	}
	if _, err := person.WriteString("/exit\r"); err != nil {
		t.Fatal(err)
	}
	if err := <-left; err != nil {
		t.Error(err)
	}
}
