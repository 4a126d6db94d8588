package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"weir/configs"
	"weir/internal/console"
	"weir/internal/inference"
	"weir/internal/server/local"
)

// runOptions are the flags that only run has.
type runOptions struct {
	temperature float32
	topP        float32
	topK        int
	maxTokens   int
	seed        uint64
	system      string
	verbose     bool
	plain       bool
}

func newRun() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run [MODEL.gguf]",
		Short: "Chat with a model in the terminal",
		Long: "Chat with a GGUF model in the terminal; without an argument, with the small built-in\n" +
			"model. Ctrl-C stops an answer; at the prompt, Ctrl-C or Ctrl-D leaves. /help lists the commands: /set and\n" +
			"/system change how it answers, /save and /load keep a conversation. When standard input is not a terminal, all of it is one\n" +
			"prompt and the answer goes to standard output.",
		Example: "  weir run model.gguf\n  echo 'What is TTFT?' | weir run",
		Args:    atMost(1),
	}
	opts := addOptions(cmd, engineSections)
	var o runOptions
	o.topP = 1
	addSamplingFlags(cmd.Flags(), &o)
	cmd.Flags().StringVar(&o.system, "system", "", "system message")
	cmd.Flags().BoolVar(&o.verbose, "verbose", false, "print counts and tokens per second after each answer")
	cmd.Flags().BoolVar(&o.plain, "plain", false, "write answers as they come, without showing their Markdown")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.check(); err != nil {
			return err
		}
		c, warnings, err := opts.config()
		if err != nil {
			return err
		}
		console.Warn(cmd.ErrOrStderr(), warnings)
		if err := chooseModel(cmd, &c, args); err != nil {
			return err
		}
		return run(c, o, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
	}
	return cmd
}

// addSamplingFlags adds the flags of how answers are sampled; what o has are the defaults.
func addSamplingFlags(f *pflag.FlagSet, o *runOptions) {
	f.Float32Var(&o.temperature, "temperature", o.temperature, "sampling temperature; 0 always takes the most probable token")
	f.Float32Var(&o.topP, "top-p", o.topP, "sample from the most probable tokens whose probabilities add up to this")
	f.IntVar(&o.topK, "top-k", o.topK, "sample from this many of the most probable tokens; 0 is all")
	f.IntVar(&o.maxTokens, "max-tokens", o.maxTokens, "longest answer; 0 is the rest of the context")
	f.Uint64Var(&o.seed, "seed", o.seed, "the same seed gives the same answer; 0 takes a new one each time")
}

func (o runOptions) check() error {
	wrong := func(flag string, value any, accepts string) error {
		return &console.UsageError{Err: fmt.Errorf("--%s %v: it takes %s", flag, value, accepts), Hint: ""}
	}
	switch {
	case !(o.temperature >= 0 && o.temperature <= 2):
		return wrong("temperature", o.temperature, "a number from 0 to 2")
	case !(o.topP > 0 && o.topP <= 1):
		return wrong("top-p", o.topP, "a number above 0, up to 1")
	case o.topK < 0:
		return wrong("top-k", o.topK, "a whole number, 0 or more")
	case o.maxTokens < 0:
		return wrong("max-tokens", o.maxTokens, "a whole number, 0 or more")
	}
	return nil
}

func (o runOptions) sampling() inference.Sampling {
	s := inference.DefaultSampling()
	s.Temperature, s.TopP, s.TopK, s.Seed = o.temperature, o.topP, o.topK, o.seed
	if s.Seed == 0 {
		s.Seed = uint64(time.Now().UnixNano())
	}
	return s
}

// run loads a model, chats, and releases it.
func run(c configs.Config, o runOptions, in io.Reader, out, errs io.Writer) error {
	c.Scheduler.MaxSeqs = 1 // one person talks; the cache need not hold more
	f, err := local.OpenRunnable(c)
	if err != nil {
		return err
	}
	defer f.Close()
	if w := local.PrepareThreads(c); w != "" {
		console.Warn(errs, []string{w})
	}
	shown := console.NewProgress(errs, console.IsTerminal(errs), console.Printable(c.Model.Name()))
	measured := console.NewMeasuring(errs, console.Printable(c.Model.Name()))
	m, err := local.Load(c, f, local.Hooks{Progress: shown.Update, Measures: measured.Update})
	measured.End()
	shown.End()
	if err != nil {
		return err
	}
	if m.Encoder != nil {
		return errors.Join(fmt.Errorf("chat with %s: it embeds texts and writes none; weir serve offers /v1/embeddings for it", console.Printable(m.Name)),
			m.Encoder.Close(context.Background()))
	}
	defer m.Generator().Close(context.Background())
	if m.Template.Template == nil {
		return fmt.Errorf("chat with %s: %w; weir serve offers /v1/completions for it", console.Printable(m.Name), m.Template.Why)
	}
	if m.Template.Note != "" {
		console.Warn(errs, []string{m.Template.Note})
	}
	talk := newConversation(m, o, out)
	if stdin, ok := in.(*os.File); ok && term.IsTerminal(int(stdin.Fd())) {
		return (&prompter{talk: talk, in: stdin, out: out, errs: errs}).loop()
	}
	return once(talk, in, errs)
}

// maxPromptBytes bounds what once reads; no context is that long.
const maxPromptBytes = 16 << 20

// once answers one prompt.
func once(talk *conversation, in io.Reader, errs io.Writer) error {
	text, err := io.ReadAll(io.LimitReader(in, maxPromptBytes+1))
	switch {
	case err != nil:
		return fmt.Errorf("read prompt: %w", err)
	case len(text) == 0:
		return &console.UsageError{Err: errors.New("standard input is empty"), Hint: "write a prompt to it, or run weir run in a terminal"}
	case len(text) > maxPromptBytes:
		return fmt.Errorf("read prompt: standard input has more than %d bytes", maxPromptBytes)
	}
	prompt := strings.ToValidUTF8(string(text), "\uFFFD")
	if prompt != string(text) {
		console.Warn(errs, []string{"standard input is not all UTF-8: what is not is read as \uFFFD; iconv -f latin1 -t utf-8 turns Latin-1 into it"})
	}
	stop, ended := interrupts()
	defer ended()
	a, err := talk.ask(strings.TrimRight(prompt, "\r\n"), stop)
	if err != nil {
		return err
	}
	if talk.options.verbose {
		fmt.Fprintln(errs, a)
	}
	return nil
}
