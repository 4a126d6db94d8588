// Package pii finds in texts what names or gives access to a person or an account: e-mail
// addresses, phone numbers, payment cards, bank accounts, network addresses, social
// security numbers, keys and other secrets. It looks at the form of texts only: a name, or
// a number written in letters, is not found.
//
// The functions Find… return the first match that begins at from or later, as its place in
// the text; none is start < 0. All calls for one text together take time proportional to its
// length, where from is the end of the match before.
package pii

import (
	"net/netip"
	"strings"
)

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

func isLetter(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' }

func isAlnum(b byte) bool { return isDigit(b) || isLetter(b) }

// beginsWord reports whether no letter or digit stands before i.
func beginsWord(text string, i int) bool { return i == 0 || !isAlnum(text[i-1]) }

// endsWord reports whether no letter or digit stands at i.
func endsWord(text string, i int) bool { return i == len(text) || !isAlnum(text[i]) }

// IsEmail reports whether the whole text is an e-mail address.
func IsEmail(text string) bool { return isWhole(text, FindEmail) }

// IsPhone reports whether the whole text is a phone number.
func IsPhone(text string) bool { return isWhole(text, FindPhone) }

// IsCard reports whether the whole text is the number of a payment card.
func IsCard(text string) bool { return isWhole(text, FindCard) }

// IsIBAN reports whether the whole text is the number of a bank account.
func IsIBAN(text string) bool { return isWhole(text, FindIBAN) }

// IsSecret reports whether the whole text is a key that says by its beginning what it is.
func IsSecret(text string) bool { return isWhole(text, FindSecret) }

func isWhole(text string, find func(text string, from int) (start, end int)) bool {
	start, end := find(text, 0)
	return start == 0 && end == len(text)
}

// IsIP reports whether the whole text is an IP address. One of version 6 has at least
// three colons: what has fewer is code or a time more often.
func IsIP(text string) bool {
	a, err := netip.ParseAddr(text)
	return err == nil && (a.Is4() || strings.Count(text, ":") >= 3)
}

// IsSSN reports whether the whole text has the form AAA-GG-SSSS of a social security
// number of the United States that can have been given out.
func IsSSN(text string) bool {
	if len(text) != len("AAA-GG-SSSS") || text[3] != '-' || text[6] != '-' {
		return false
	}
	area, group, serial := text[:3], text[4:6], text[7:]
	for i := range len(text) {
		if i != 3 && i != 6 && !isDigit(text[i]) {
			return false
		}
	}
	return area != "000" && area != "666" && area[0] != '9' && group != "00" && serial != "0000"
}

// SecretPrefixes are how keys begin that IsSecret takes.
func SecretPrefixes() []string {
	list := make([]string, len(prefixes))
	for i := range prefixes {
		list[i] = prefixes[i].text
	}
	return list
}
