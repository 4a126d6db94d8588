package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"weir/internal/console"
)

// prompter reads questions from a terminal and shows the answers.
type prompter struct {
	talk *conversation
	in   *os.File
	out  io.Writer
	errs io.Writer

	lines *term.Terminal
}

const terminalHelp = `Write a message and press Enter.
  /clear  forget the conversation
  /help   this
  /exit   leave (so do Ctrl-C and Ctrl-D here)
Ctrl-C while an answer comes stops the answer.`

// loop asks and answers until the user leaves. A question that fails does not
// end it.
func (p *prompter) loop() error {
	p.lines = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{p.in, p.out}, ">>> ")
	fmt.Fprintf(p.out, "%s. /help for help.\n", console.Printable(p.talk.model.Name))
	for {
		line, err := p.read()
		switch {
		case errors.Is(err, io.EOF):
			fmt.Fprintln(p.out)
			return nil
		case err != nil:
			return fmt.Errorf("read terminal: %w", err)
		}
		switch line = strings.TrimSpace(line); line {
		case "":
		case "/exit", "/bye", "/quit":
			return nil
		case "/clear":
			p.talk.clear()
		case "/help", "/?":
			fmt.Fprintln(p.out, terminalHelp)
		default:
			p.answer(line)
		}
	}
}

// read takes one line. The terminal is raw only while it is read, so that
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
	line, err := p.lines.ReadLine()
	if errors.Is(err, term.ErrPasteIndicator) {
		err = nil
	}
	return line, err
}

func (p *prompter) answer(question string) {
	stop, end := interrupts()
	defer end()
	a, err := p.talk.ask(question, stop)
	if err != nil {
		fmt.Fprintf(p.errs, "weir: %v\n", err)
	} else if p.talk.options.verbose {
		fmt.Fprintln(p.errs, a)
	}
}
