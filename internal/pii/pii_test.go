package pii

import "testing"

func TestWholeTexts(t *testing.T) {
	for name, c := range map[string]struct {
		is      func(string) bool
		yes, no []string
	}{
		"email": {IsEmail, []string{"a.b+c@mail.example.com", "jürgen@firma-süd.de"}, []string{"", "@a.co", "a@b", "a@b.co."}},
		"phone": {IsPhone, []string{"+49 171 1234567", "(555) 223-4567", "+1 (555) 223-4567", "0171 1234567"}, []string{"", "2026", "01-02-2026 14"}},
		"card":  {IsCard, []string{"4111 1111 1111 1111", "378282246310005"}, []string{"4111 1111 1111 1112", "1234"}},
		"iban":  {IsIBAN, []string{"DE89 3704 0044 0532 0130 00", "gb82west12345698765432"}, []string{"DE88370400440532013000"}},
		"ip": {IsIP, []string{"10.0.0.1", "2001:db8::1:2", "fe80::1:2:3"},
			[]string{"10.0.0.256", "1.2.3", "a::b", "12:30:45", "10.0.0.1.2"}},
		"ssn":    {IsSSN, []string{"123-45-6789"}, []string{"000-45-6789", "666-45-6789", "900-45-6789", "123-00-6789", "123-45-0000", "123456789", "12a-45-6789"}},
		"secret": {IsSecret, []string{"AKIAIOSFODNN7EXAMPLE", "sk-proj-abcDEF0123456789abcDEF0123456789"}, []string{"sk-a", "risk-abcdefghijklmnopq"}},
	} {
		for _, text := range c.yes {
			if !c.is(text) {
				t.Errorf("%s: %q is not taken", name, text)
			}
		}
		for _, text := range c.no {
			if c.is(text) {
				t.Errorf("%s: %q is taken", name, text)
			}
		}
	}
}
