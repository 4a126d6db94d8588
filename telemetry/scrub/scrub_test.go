package scrub

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// a key of weir's own form, and others of the forms that providers give.
const (
	ownKey   = "weir_1h8tz0kq4m_Vb3abcdefghijklmnopqrstuTTTTTTCCCCCC"
	openKey  = "sk-proj-abcDEF0123456789abcDEF0123456789"
	webToken = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
)

func TestTextTakesOut(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"nothing to see", "nothing to see"},

		{"write to a.b+c@mail.example.com.", "write to [email]."},
		{"<ann@example.org>,bob@example.org", "<[email]>,[email]"},
		{"jürgen.müller@firma-süd.de", "[email]"},
		{"请联系zhang@example.cn谢谢", "请联系[email]谢谢"},
		{"mailto:x_y@a.co?subject=1", "mailto:[email]?subject=1"},
		{"a@b, @handle, user@localhost, 3@4.5", "a@b, @handle, user@localhost, 3@4.5"},

		{"call +49 171 1234567 now", "call [phone] now"},
		{"(555) 123-4567 or 555.234.4567 or +1 (555) 123-4567", "(555) 123-4567 or [phone] or [phone]"}, // no exchange begins with 1
		{"(555) 223-4567", "[phone]"},                                                                   // the bracket that opens goes with it
		{"1-800-555-0199", "[phone]"},
		{"2125550199 at 1732287000", "[phone] at 1732287000"},
		{"030/1234567, 0171 1234567 0172 2345678", "[phone], [phone] [phone]"},
		{"0049 30 1234567", "[phone]"},
		{"2026-11-22 14:50, 22.11.2026, 01-02-2026 14:30", "2026-11-22 14:50, 22.11.2026, 01-02-2026 14:30"},
		{"192.168.100.200 and 10.0.0.1 and 0.123456789012", "192.168.100.200 and 10.0.0.1 and 0.123456789012"},
		{"pi is 3.141592653589793, 1+1234567 = 1234568", "pi is 3.141592653589793, 1+1234567 = 1234568"},

		{"card 4111 1111 1111 1111 12/27", "card [card] 12/27"},
		{"4111-1111-1111-1111, 378282246310005, 5555555555554444", "[card], [card], [card]"},
		{"4111111111111111 5500000000000004", "[card] [card]"},
		{"4111 1111 1111 1112", "4111 1111 1111 1112"}, // its check digit is wrong
		{"order 41111111111111110000000", "order 41111111111111110000000"},
		{"id_4111111111111111", "id_4111111111111111"},

		{"DE89 3704 0044 0532 0130 00 and more", "[iban] and more"},
		{"gb82west12345698765432.", "[iban]."},
		{"DE88370400440532013000", "DE88370400440532013000"}, // its remainder is wrong
		{"FR14 2004 1010 0505 0001 3M02 606", "[iban]"},

		{"my key is " + ownKey + ".", "my key is [key]."},
		{"OPENAI_API_KEY=" + openKey, "OPENAI_API_KEY=[key]"},
		{"AKIAIOSFODNN7EXAMPLE", "[key]"},
		{"ghp_0123456789abcdefghijABCDEFGHIJ012345 xoxb-1234567890-abc", "[key] [key]"},
		{"Authorization: Bearer " + webToken, "Authorization: Bearer [key]"},
		{"curl -H 'authorization: bearer abc0123def456'", "curl -H 'authorization: bearer [key]'"},
		{"the bearer of bad news", "the bearer of bad news"},
		{`{"password": "correct-horse", "n": 1}`, `{"password": "[key]", "n": 1}`},
		{"DB_PASSWORD=tr0ub4dor&3", "DB_PASSWORD=[key]"},
		{"a password is needed: yes", "a password is needed: yes"},
		{"postgres://app:hunter2@db.example.com/x", "postgres://app:[key]@db.example.com/x"},
		{"risk-management-and-other-things, task-0123456789abcdefghij", "risk-management-and-other-things, task-0123456789abcdefghij"},
		{"-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----\nafter", "[key]\nafter"},
		{"-----BEGIN PRIVATE KEY-----\nMIIEow", "[key]"},
		{"-----BEGIN CERTIFICATE-----\nMIIEow", "-----BEGIN CERTIFICATE-----\nMIIEow"},
	} {
		if got := Text(c.text); got != c.want {
			t.Errorf("%q\n is %q\nnot %q", c.text, got, c.want)
		}
	}
}

func check(t *testing.T, text string) string {
	t.Helper()
	once := Text(text)
	if again := Text(once); again != once {
		t.Errorf("%.200q: scrubbed %.200q, again %.200q", text, once, again)
	}
	if len(once) > 2*len(text) && once != Withheld {
		t.Errorf("%d bytes became %d", len(text), len(once))
	}
	if utf8.ValidString(text) && !utf8.ValidString(once) {
		t.Errorf("%.200q lost its UTF-8: %.200q", text, once)
	}
	return once
}

func FuzzText(f *testing.F) {
	for _, seed := range []string{
		"a@b.co 4111 1111 1111 1111 +49 171 1234567 DE89 3704 0044 0532 0130 00 " + openKey,
		"password=\"x\" Bearer=Bearer=Bearer1 ://:p@://:p@", "-----BEGIN PRIVATE KEY-----", "０１２", "a@b.co@c.de+49123456789",
		"\xff@\xfe.co", "00491711234567 0171 1234567 4111",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) { check(t, text) })
}

// Texts that a scrubber with backtracking takes quadratic time for: 16 times the length
// may take as long as 16 texts, and some. Both take so long that a busy machine is one to both.
func TestTextTakesLinearTime(t *testing.T) {
	const bytes = 16 << 10
	for _, part := range []string{
		"a", "@", "a@", "a@b.", "a@a.a", "1", "1 ", "4111 ", "+1", "(", "0", "01 ", "AB12", "DE89 ", "eyJ", "eyJ.", "-eyJ-", "sk-", "sk-a",
		"Bearer=", "bearer ", "password", "password=", "password:::", "pwd=a ", "://", "://a:", "://:p@", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----",
		"-----END ", "é", "\xff", "é@", ".", "-", " ", "a.", "4-", "0.1", "[key]@a.co",
	} {
		check(t, strings.Repeat(part, 1000))
		if testing.Short() {
			continue
		}
		timed := func(n, times int) time.Duration {
			text := strings.Repeat(part, n/len(part))
			best := time.Duration(1<<63 - 1)
			for range 3 {
				start := time.Now()
				for range times {
					Text(text)
				}
				best = min(best, time.Since(start))
			}
			return best
		}
		started := time.Now()
		Text(strings.Repeat(part, 16*bytes/len(part)))
		if time.Since(started) <= time.Second/4 {
			continue // quadratic time is tens of seconds
		}
		short, long := timed(bytes, 16), timed(16*bytes, 1)
		if long > 8*short && long > time.Second/4 {
			t.Errorf("%q: %v for 16 times 16 KiB, %v for 256 KiB", part, short, long)
		}
	}
}

func BenchmarkText(b *testing.B) {
	prose := strings.Repeat("The quick brown fox, at 10:30 on 2026-11-22, wrote 42 lines to ann@example.com about task-management. ", 100)
	b.SetBytes(int64(len(prose)))
	for b.Loop() {
		Text(prose)
	}
}
