package chat

import (
	"errors"
	"testing"
	"time"

	"weir/internal/reference"
)

// costSetup makes the operands: text of ASCII, of other letters, of digits, of
// both writers in turns, of words, lines and special characters; long lists.
const costSetup = `{% set ascii = 'aBcDeF' * 10000 %}{% set wide = 'éßΣжア' * 5000 %}{% set digits = '7' * 4000 %}` +
	`{% set big = digits | int %}` +
	`{% set words = 'ab ' * 20000 %}{% set lines = 'ab\n' * 20000 %}{% set marks = '&<\'"\\{%' * 8000 %}` +
	`{% set blanks = ' ' * 60000 %}` +
	`{% set mixed = (messages[0].content ~ '-') * 20000 %}{% set numbers = range(5000) | list %}{% set texts = words.split() %}` +
	`{% set fields = '{0}' * 8000 %}{% set percents = '%%' * 20000 %}{% set affixes = ['b' * 1000] * 1000 %}` +
	`{% set long = ['a' * 50000 ~ 'b'] * 20 %}{% set wider = ascii ~ 'x' %}{% set digest = {ascii: 1, wider: 2} %}` +
	`{% set many = dict() %}{% set floats = '1' * 300 ~ '.' ~ digits %}`

// costly are expressions that look at long operands.
var costly = []string{
	`digits | int`, `digits | int(base=16)`, `ascii | int`, `digits | float`, `floats | float`, `ascii | float`, `wide | float`,
	`blanks | int`, `big | string`, `big ~ ''`,
	`big + big`, `big - 1`, `big * 3`, `(big // 10 ** 2000) * (big // 10 ** 2100)`, `big // 7`, `big % (10 ** 2000 + 1)`,
	`3 ** 8000`, `big == big`, `big < big`,
	`big | abs`, `big | round(-300)`, `-big`, `{big: 1}[big]`, `big | tojson`, `'%d' % big`, `'{:,}'.format(big)`, `'%x' % big`,
	`big | float`,
	`ascii | upper`, `ascii | lower`, `ascii | title`, `ascii | capitalize`, `ascii.swapcase()`, `ascii.upper()`, `ascii.title()`,
	`wide | upper`, `wide | lower`,
	`wide.title()`, `mixed | upper`, `ascii | trim`, `blanks | trim`, `ascii.strip('aBcDeF')`,
	`ascii.strip('x' * 1000 ~ 'aBcDeF')`, `wide.lstrip('éßΣжア')`, `blanks.split()`,
	`words.split()`, `words.split(' ')`, `words.rsplit()`, `words.rsplit(' ')`, `words.split(' ', 3)`, `ascii.split('zz')`,
	`lines.splitlines()`, `lines | indent`, `ascii | indent`,
	`wide | indent`, `ascii | replace('a', 'b')`, `ascii | replace('zz', 'b')`, `ascii.replace('', '-')`, `ascii | escape`,
	`marks | escape`, `marks | forceescape`, `marks | safe`, `ascii | urlencode`,
	`marks | urlencode`, `mixed | urlencode`, `ascii | tojson`, `marks | tojson`, `wide | tojson`,
	`wide | tojson(ensure_ascii=true)`, `[ascii] | string`, `[marks] | string`, `[wide] | string`,
	`ascii | wordcount`, `words | wordcount`, `wide | wordcount`, `ascii | length`, `wide | length`, `ascii | truncate(100)`,
	`words | truncate(59000)`, `ascii | center(60100)`,
	`wide.center(60100)`, `ascii.zfill(60100)`, `ascii.ljust(60100, 'é')`, `ascii | reverse`, `wide | reverse`, `mixed | reverse`,
	`ascii | first`, `ascii | last`, `ascii | list`, `wide | list`,
	`ascii | batch(7) | list`, `ascii | unique | list`, `ascii | sort`, `ascii | join('-')`, `texts | join('-')`, `numbers | join`,
	`ascii | map('upper') | list`, `texts | map('upper') | list`,
	`ascii | max`, `texts | max`, `texts | min`, `texts | sort`, `long | sort`, `long | unique | list`, `long | max`,
	`long | groupby(0) | list`, `numbers | sum`, `numbers | sort(reverse=true)`,
	`texts | unique | list`, `numbers | select('odd') | list`, `numbers | slice(9) | list`, `numbers | tojson`, `numbers | string`,
	`numbers == numbers`, `numbers < numbers`,
	`numbers + numbers`, `numbers * 3`, `numbers[1:]`, `numbers[::2]`, `numbers | list`, `numbers | reverse | list`,
	`5001 in numbers`, `numbers.index(4999)`, `numbers.count(1)`,
	`ascii == wider`, `ascii < wider`, `ascii ~ 'y' == wider`, `'zz' in ascii`, `wider in ascii`, `'aBcDeG' in ascii`,
	`ascii + wider`, `ascii ~ wider`, `ascii * 3`, `wide[5:]`, `ascii[::2]`, `ascii[-1]`, `ascii[59999]`,
	`wide[24999]`, `ascii.find('zz')`, `ascii.find('é', 5)`, `wide.rfind('zz')`, `ascii.count('a')`, `ascii.count('')`,
	`wide.index('ア')`, `ascii.startswith(('a' * 1000 ~ 'c', ascii ~ 'e', wider))`, `ascii.startswith(wider)`,
	`ascii.endswith('F')`, `ascii.partition('zz')`, `ascii.rpartition('F')`, `ascii.removeprefix('a')`, `ascii.isalpha()`,
	`wide.isalpha()`, `digits.isdigit()`, `ascii.isalnum()`, `blanks.isspace()`,
	`ascii.islower()`, `('a' * 60000).islower()`, `('ß' * 30000).islower()`, `ascii.istitle()`, `ascii.isidentifier()`,
	`wide.isprintable()`, `ascii.isascii()`, `digest[ascii]`, `digest[wider]`, `digest.get(wider)`,
	`wider in digest`, `{wider: 1}`, `dict(a=1).get(ascii)`, `digest == digest`, `digest | dictsort`,
	`digest | tojson(sort_keys=true)`, `messages[0][ascii]`, `messages[0] | attr(ascii)`,
	`'%s' % ascii`, `percents % ()`, `'%r' % marks`, `'{}'.format(ascii)`, `fields.format(1)`, `'{:>60000}'.format(ascii)`,
	`strftime_now(percents)`, `ascii is string`, `ascii is lower`, `ascii is upper`,
	`ascii is eq wider`, `ascii is in long`, `long == long`, `[ascii, wider] | sort(case_sensitive=true)`, `mixed | trim('-')`,
	`mixed[1:]`, `mixed.split('-')`, `mixed | replace('-', '+')`,
}

// repeat is a template that evaluates an expression until its budget of steps is
// spent.
func repeat(tb testing.TB, expression string, steps int) *Template {
	src := costSetup + `{% for a in range(99999) %}{% for b in range(99999) %}{% set x = ` + expression +
		` %}{% endfor %}{% endfor %}`
	template, err := Parse(src, Options{MaxSteps: steps, MaxMemoryBytes: 1 << 40})
	if err != nil {
		tb.Fatal(err)
	}
	return template
}

// spend renders until the budget is spent.
func (t *Template) spend(tb testing.TB) {
	_, err := t.Render(Input{Messages: Messages(Message{"user", "héllo"}), Now: time.Unix(0, 0)})
	var e *Error
	if !errors.As(err, &e) || e.Reason != Limit {
		tb.Fatalf("got %v, want a limit", err)
	}
}

// Whatever a template does over and over, its budget ends it.
func TestStepsEndEveryExpression(t *testing.T) {
	reference.Slow(t)
	for _, expression := range costly {
		t.Run(expression, func(t *testing.T) { repeat(t, expression, 20_000).spend(t) })
	}
}

// BenchmarkSteps fails where a step of the budget stands for more time than
// stepNanoseconds, whatever the template does:
//
//	go test ./tokenizer/chat -run '^$' -bench Steps -benchtime 1x
func BenchmarkSteps(b *testing.B) {
	// A step of plain evaluation takes 50 to 150 ns; a filter that pays too little
	// for its operand takes a thousand and more.
	const steps, stepNanoseconds = 100_000, 500
	for _, expression := range costly {
		b.Run(expression, func(b *testing.B) {
			template := repeat(b, expression, steps)
			for b.Loop() {
				template.spend(b)
			}
			perStep := float64(b.Elapsed().Nanoseconds()) / float64(b.N) / steps
			b.ReportMetric(perStep, "ns/step")
			if perStep > stepNanoseconds {
				b.Errorf("a step takes %.0f ns, limit %d", perStep, stepNanoseconds)
			}
		})
	}
}
