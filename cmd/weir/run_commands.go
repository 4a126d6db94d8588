package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"weir/internal/console"
)

// errLeave says that the user ends the conversation.
var errLeave = errors.New("leave")

// chatCommand is a command of a conversation at a terminal.
type chatCommand struct {
	names []string
	args  string
	help  string
	do    func(p *prompter, args string) error
}

// chatCommands are all of them, in the order of help.
func chatCommands() []chatCommand {
	return []chatCommand{
		{[]string{"/set"}, "[NAME [VALUE]]", "show the settings, or change one: temperature, top-p, top-k, max-tokens, seed, verbose, plain", (*prompter).set},
		{[]string{"/system"}, "[TEXT]", `show the system message, or change it; /system "" takes it away`, (*prompter).system},
		{[]string{"/retry"}, "", "answer the last message again", (*prompter).retry},
		{[]string{"/undo"}, "", "forget the last message and its answer", (*prompter).undo},
		{[]string{"/save"}, "[FILE]", "write the conversation and its settings, as the body of a chat completion", (*prompter).save},
		{[]string{"/load"}, "FILE", "go on with a conversation from such a file", (*prompter).load},
		{[]string{"/clear"}, "", "forget the conversation", func(p *prompter, _ string) error { p.talk.clear(); return nil }},
		{[]string{"/help", "/?"}, "", "this", func(p *prompter, _ string) error { return p.help() }},
		{[]string{"/exit", "/bye", "/quit"}, "", "leave (so do Ctrl-C and Ctrl-D here)", func(*prompter, string) error { return errLeave }},
	}
}

func (p *prompter) help() error {
	var b strings.Builder
	b.WriteString("Write a message and press Enter. A line that ends with \\ goes on; \"\"\" begins and ends a message of several lines.\n")
	for _, c := range chatCommands() {
		fmt.Fprintf(&b, "  %-22s %s\n", strings.TrimSpace(c.names[0]+" "+c.args), c.help)
	}
	b.WriteString("Ctrl-C while an answer comes stops the answer. What is typed meanwhile waits for the next message.\n")
	_, err := fmt.Fprint(p.out, b.String())
	return err
}

// command runs a line that begins with a slash.
func (p *prompter) command(line string) error {
	name, args, _ := strings.Cut(line, " ")
	args = strings.TrimSpace(args)
	var names []string
	for _, c := range chatCommands() {
		for _, n := range c.names {
			if n == name {
				if c.args == "" && args != "" {
					return fmt.Errorf("%s takes nothing behind it; it has %q", name, args)
				}
				return c.do(p, args)
			}
			names = append(names, n)
		}
	}
	hint := "/help lists the commands"
	if near := nearest(name, names); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return fmt.Errorf("%q is not a command; %s (a message that begins with / is written with a space before it)", console.Printable(name), hint)
}

// settings are the flags of run that may change in a conversation.
func (p *prompter) settings(o *runOptions) *pflag.FlagSet {
	f := pflag.NewFlagSet("set", pflag.ContinueOnError)
	f.SortFlags = false
	addSamplingFlags(f, o)
	f.BoolVar(&o.verbose, "verbose", o.verbose, "counts and tokens per second after each answer")
	f.BoolVar(&o.plain, "plain", o.plain, "answers as they come, without showing their Markdown")
	return f
}

// takes says of a flag's type what its values are.
var takes = map[string]string{"float32": "a number", "int": "a whole number", "uint64": "a whole number, 0 or more", "bool": "true or false"}

func (p *prompter) set(args string) error {
	name, value, given := strings.Cut(args, " ")
	name = strings.ReplaceAll(strings.TrimLeft(name, "-"), "_", "-")
	changed := p.talk.options
	f := p.settings(&changed)
	if name == "" {
		f.VisitAll(func(s *pflag.Flag) { fmt.Fprintf(p.out, "  %-12s %-8s %s\n", s.Name, s.Value, s.Usage) })
		return nil
	}
	s := f.Lookup(name)
	if s == nil {
		var names []string
		f.VisitAll(func(s *pflag.Flag) { names = append(names, s.Name) })
		return fmt.Errorf("%q is not a setting; they are %s, and /system for the system message", console.Printable(name), strings.Join(names, ", "))
	}
	value = strings.TrimSpace(value)
	switch {
	case !given && s.Value.Type() == "bool":
		value = "true"
	case !given:
		fmt.Fprintf(p.out, "  %s %s\n", s.Name, s.Value)
		return nil
	}
	if err := s.Value.Set(value); err != nil {
		return fmt.Errorf("%s %q: it takes %s", s.Name, value, takes[s.Value.Type()])
	}
	if err := changed.check(); err != nil {
		return err
	}
	p.talk.options = changed
	return nil
}

func (p *prompter) system(args string) error {
	if args == "" {
		_, err := fmt.Fprintf(p.out, "%s\n", console.PrintableText(p.talk.options.system))
		return err
	}
	if text, err := strconv.Unquote(args); err == nil {
		args = text
	}
	p.talk.setSystem(args)
	return nil
}

func (p *prompter) retry(string) error {
	question, ok := p.talk.takeLast()
	if !ok {
		return errors.New("there is no message to answer again")
	}
	p.answer(question)
	return nil
}

func (p *prompter) undo(string) error {
	if _, ok := p.talk.takeLast(); !ok {
		return errors.New("there is no message to forget")
	}
	return nil
}
