package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
	"golang.org/x/text/runes"
	"golang.org/x/text/transform"

	"weir/internal/console"
)

// prompter reads messages and commands from a terminal and shows the answers.
type prompter struct {
	talk *conversation
	in   *os.File
	out  io.Writer
	errs io.Writer

	lines *term.Terminal
	saved string // the file that the conversation was last saved to or loaded from
}

// The prompts of a message's first line and of its further ones.
const (
	firstPrompt = ">>> "
	nextPrompt  = "... "
)

// readable puts a question mark in the place of what is not UTF-8, such as the keys of a terminal with another encoding, and of U+FFFD: term takes
// either for the beginning of a character and would wait for its end forever.
var readable = runes.Map(func(r rune) rune {
	if r == utf8.RuneError {
		return '?'
	}
	return r
})

// loop asks and answers until the user leaves. A question that fails does not
// end it.
func (p *prompter) loop() error {
	p.lines = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{transform.NewReader(p.in, readable), p.out}, firstPrompt)
	fmt.Fprintf(p.out, "%s. /help for help.\n", console.Printable(p.talk.model.Name))
	for {
		text, err := p.read()
		switch {
		case errors.Is(err, io.EOF):
			fmt.Fprintln(p.out)
			return nil
		case err != nil:
			return fmt.Errorf("read terminal: %w", err)
		}
		if left := p.take(text); left {
			return nil
		}
	}
}

// take does what a message or command asks for, and reports whether the user leaves.
func (p *prompter) take(text string) (left bool) {
	command := strings.TrimSpace(text)
	switch {
	case command == "":
	case strings.HasPrefix(text, "/"):
		err := p.command(command)
		if errors.Is(err, errLeave) {
			return true
		}
		if err != nil {
			fmt.Fprintf(p.errs, "weir: %v\n", err)
		}
	default:
		p.answer(text)
	}
	return false
}

// read takes one message. The terminal is raw only while it is read, so that
// Ctrl-C is a signal while an answer comes.
func (p *prompter) read() (string, error) {
	state, err := term.MakeRaw(int(p.in.Fd()))
	if err != nil {
		return "", err
	}
	defer term.Restore(int(p.in.Fd()), state) //nolint:errcheck // the terminal is gone
	if width, height, err := term.GetSize(int(p.in.Fd())); err == nil && width > 0 {
		_ = p.lines.SetSize(width, height)
	}
	p.lines.SetBracketedPasteMode(true)
	defer p.lines.SetBracketedPasteMode(false)
	return readMessage(p.lines)
}

// lineReader is what readMessage needs of a terminal.
type lineReader interface {
	ReadLine() (string, error)
	SetPrompt(prompt string)
}

// readMessage reads a message of one line; of several where a line ends with a backslash, between """ and """, and as they are pasted.
// Ctrl-C and Ctrl-D in the middle give it up.
func readMessage(lines lineReader) (string, error) {
	defer lines.SetPrompt(firstPrompt)
	var text strings.Builder
	block := false
	for first := true; ; first = false {
		line, err := lines.ReadLine()
		pasted := errors.Is(err, term.ErrPasteIndicator)
		switch {
		case pasted:
		case errors.Is(err, io.EOF) && !first:
			return "", nil
		case err != nil:
			return "", err
		}
		lines.SetPrompt(nextPrompt)
		if rest, opened := strings.CutPrefix(line, `"""`); first && opened {
			block, line = true, rest
		}
		if rest, closed := strings.CutSuffix(strings.TrimRight(line, " "), `"""`); block && closed {
			text.WriteString(rest)
			return text.String(), nil
		}
		rest, continued := strings.CutSuffix(line, `\`)
		if !block && !pasted && !continued {
			text.WriteString(line)
			return text.String(), nil
		}
		if !block && continued {
			line = rest
		}
		text.WriteString(line + "\n")
	}
}

func (p *prompter) answer(question string) {
	stop, end := interrupts()
	defer end()
	if restore, err := console.Quiet(p.in); err == nil {
		defer restore()
	}
	a, err := p.talk.ask(question, stop)
	if err != nil {
		fmt.Fprintf(p.errs, "weir: %v\n", err)
	} else if p.talk.options.verbose {
		fmt.Fprintln(p.errs, a)
	}
}
