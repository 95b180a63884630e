package twin

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// node is an element of a document.
type node struct {
	name     string
	attrs    [][2]string
	text     string
	children []*node
}

func (n *node) get(name string) string {
	for _, a := range n.attrs {
		if a[0] == name {
			return a[1]
		}
	}
	return ""
}

func (n *node) has(name string) bool {
	for _, a := range n.attrs {
		if a[0] == name {
			return true
		}
	}
	return false
}

// only tells whether n has no attributes but these.
func (n *node) only(names ...string) bool {
	for _, a := range n.attrs {
		known := false
		for _, name := range names {
			known = known || a[0] == name
		}
		if !known {
			return false
		}
	}
	return true
}

func (n *node) empty() bool { return len(n.children) == 0 && strings.Trim(n.text, " \t\r\n") == "" }

var declaration = regexp.MustCompile(`^version\s*=\s*["']1\.0["'](\s+encoding\s*=\s*["']((?i)utf-8|us-ascii)["'])?(\s+standalone\s*=\s*["'](yes|no)["'])?\s*$`)

func written(n xml.Name) string {
	if n.Space != "" {
		return n.Space + ":" + n.Local
	}
	return n.Local
}

// parse reads a document, or says that it is malformed.
func parse(doc []byte) (*node, error) {
	doc = bytes.TrimPrefix(doc, []byte("\ufeff"))
	if !utf8.Valid(doc) {
		return nil, errors.New("not UTF-8")
	}
	d := xml.NewDecoder(bytes.NewReader(doc))
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	above := &node{} // whose only child is the root
	stack := []*node{above}
	for {
		at := d.InputOffset()
		token, err := d.RawToken()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		top := stack[len(stack)-1]
		switch t := token.(type) {
		case xml.StartElement:
			n := &node{name: written(t.Name)}
			for _, a := range t.Attr {
				if n.has(written(a.Name)) {
					return nil, errors.New("attribute twice")
				}
				n.attrs = append(n.attrs, [2]string{written(a.Name), a.Value})
			}
			top.children = append(top.children, n)
			stack = append(stack, n)
		case xml.EndElement:
			if top == above || top.name != written(t.Name) {
				return nil, errors.New("end tag")
			}
			stack = stack[:len(stack)-1]
		case xml.CharData:
			top.text += string(t)
		case xml.Directive:
			return nil, errors.New("directive")
		case xml.ProcInst:
			if !strings.EqualFold(t.Target, "xml") {
				continue
			}
			match := declaration.FindStringSubmatch(string(t.Inst))
			if t.Target != "xml" || at != 0 || match == nil {
				return nil, errors.New("declaration")
			}
			if strings.EqualFold(match[2], "us-ascii") && strings.IndexFunc(string(doc), func(r rune) bool { return r > 127 }) >= 0 {
				return nil, errors.New("not ASCII")
			}
		}
	}
	if len(stack) != 1 || len(above.children) != 1 || strings.Trim(above.text, " \t\r\n") != "" {
		return nil, errors.New("not one root")
	}
	return above.children[0], nil
}

var (
	digits    = regexp.MustCompile(`^[0-9]+$`)
	accountID = regexp.MustCompile(`^[0-9]{1,64}$`)
	symbol    = regexp.MustCompile(`^[A-Za-z0-9]{1,32}$`)
	number    = regexp.MustCompile(`^[+-]?([0-9]+(\.[0-9]{0,8})?|\.[0-9]{1,8})$`)
)

// decimal reads a decimal in units of 10^-8, whose absolute value is below bound.
func decimal(s string, bound *big.Int) (*big.Int, error) {
	if !number.MatchString(s) {
		return nil, errors.New("no decimal")
	}
	whole, fraction, _ := strings.Cut(s, ".")
	v, ok := new(big.Int).SetString(whole+fraction+strings.Repeat("0", 8-len(fraction)), 10)
	if !ok || new(big.Int).Abs(v).Cmp(bound) >= 0 {
		return nil, errors.New("out of range")
	}
	return v, nil
}

var (
	balanceBound = tenTo(18 + 8)
	orderBound   = product(big.NewInt(9), tenTo(10+8))
)

// Do answers one frame's XML with a reply's XML; what happens in it happens at
// now, in seconds since the epoch. The texts of errors are the twin's own.
func (x *Exchange) Do(doc []byte, now int64) []byte {
	root, err := parse(doc)
	var replies []string
	switch {
	case err != nil:
		return []byte("<results><error>malformed</error></results>")
	case root.name == "create" && len(root.attrs) == 0:
		for _, child := range root.children {
			replies = append(replies, x.createChild(child)...)
		}
	case root.name == "transactions" && root.only("id", "account"):
		for _, child := range root.children {
			replies = append(replies, x.transaction(root, child, now))
		}
	default:
		return []byte("<results><error>unknown root or attribute</error></results>")
	}
	if len(replies) == 0 {
		return []byte("<results/>")
	}
	return []byte("<results>" + strings.Join(replies, "") + "</results>")
}

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "\t", "&#x9;", "\n", "&#xA;", "\r", "&#xD;").Replace(s)
}

// echo returns the attributes of a request that its reply repeats. sym is that
// of the symbol around it, if it is in one that has one.
func echo(n, around *node) string {
	s := ""
	for _, name := range []string{"sym", "amount", "limit", "id"} {
		switch {
		case name == "sym" && around != nil && around.has("sym"):
			s += ` sym="` + escape(around.get("sym")) + `"`
		case n.has(name):
			s += " " + name + `="` + escape(n.get(name)) + `"`
		}
	}
	return s
}

func refusal(n, around *node, err error) string {
	return "<error" + echo(n, around) + ">" + err.Error() + "</error>"
}

func (x *Exchange) createChild(n *node) []string {
	if n.name == "symbol" {
		return x.createSymbol(n)
	}
	err := errors.New("unknown element, attribute or content")
	if n.name == "account" && n.only("id", "balance") && n.empty() {
		err = x.openAccount(n)
	}
	if err != nil {
		return []string{refusal(n, nil, err)}
	}
	return []string{"<created" + echo(n, nil) + "/>"}
}

func (x *Exchange) openAccount(n *node) error {
	balance, err := decimal(n.get("balance"), balanceBound)
	if err != nil || balance.Sign() < 0 || !accountID.MatchString(n.get("id")) {
		return errors.New("bad id or balance")
	}
	return x.open(n.get("id"), product(balance, tenTo(8)))
}

func (x *Exchange) createSymbol(n *node) (replies []string) {
	if !n.only("sym") {
		return []string{refusal(n, nil, errors.New("unknown attribute"))}
	}
	sym := n.get("sym")
	good := symbol.MatchString(sym)
	if good {
		x.make(sym)
	}
	if len(n.children) == 0 {
		if !good {
			return []string{refusal(n, nil, errors.New("bad symbol"))}
		}
		return []string{"<created" + echo(n, nil) + "/>"}
	}
	for _, child := range n.children {
		err := errors.New("bad symbol, element, attribute, content or value")
		if good && child.name == "account" && child.only("id") && len(child.children) == 0 && accountID.MatchString(child.get("id")) {
			shares, bad := decimal(strings.Trim(child.text, " \t\r\n"), balanceBound)
			if bad == nil && shares.Sign() > 0 {
				err = x.place(sym, child.get("id"), shares)
			}
		}
		if err != nil {
			replies = append(replies, refusal(child, n, err))
		} else {
			replies = append(replies, "<created"+echo(child, n)+"/>")
		}
	}
	return replies
}

func (x *Exchange) transaction(root, n *node, now int64) string {
	id := root.get("id") + root.get("account")
	if root.has("id") == root.has("account") || !accountID.MatchString(id) || x.accounts[id] == nil {
		return refusal(n, nil, errors.New("bad account"))
	}
	if !n.empty() {
		return refusal(n, nil, errors.New("content"))
	}
	var o *order
	err := errors.New("unknown element or attribute")
	switch {
	case n.name == "order" && n.only("sym", "amount", "limit"):
		if o, err = x.placeOrder(id, n, now); err == nil {
			return fmt.Sprintf(`<opened%s id="%d"/>`, echo(n, nil), o.id)
		}
	case n.name == "query" && n.only("id"):
		if o, err = x.find(id, orderID(n.get("id"))); err == nil {
			return "<status" + echo(n, nil) + ">" + o.status() + "</status>"
		}
	case n.name == "cancel" && n.only("id"):
		if o, err = x.cancel(id, orderID(n.get("id")), now); err == nil {
			return "<canceled" + echo(n, nil) + ">" + o.status() + "</canceled>"
		}
	}
	return refusal(n, nil, err)
}

// orderID returns the number of an order, 0 where s is none.
func orderID(s string) int {
	if !digits.MatchString(s) {
		return 0
	}
	id, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return int(id)
}

func (x *Exchange) placeOrder(id string, n *node, now int64) (*order, error) {
	amount, err1 := decimal(n.get("amount"), orderBound)
	limit, err2 := decimal(n.get("limit"), orderBound)
	if err1 != nil || err2 != nil || amount.Sign() == 0 || limit.Sign() <= 0 || !symbol.MatchString(n.get("sym")) {
		return nil, errors.New("bad symbol, amount or limit")
	}
	return x.order(id, n.get("sym"), amount, limit, now)
}

// status lists what is open, what was canceled, and the executions, oldest first.
func (o *order) status() (s string) {
	if o.open.Sign() > 0 {
		s += `<open shares="` + show(o.open) + `"/>`
	}
	if o.canceled != nil {
		s += fmt.Sprintf(`<canceled shares="%s" time="%d"/>`, show(o.canceled), o.canceledAt)
	}
	for _, e := range o.executions {
		s += fmt.Sprintf(`<executed shares="%s" price="%s" time="%d"/>`, show(e.shares), show(e.price), e.time)
	}
	return s
}

var (
	errorText = regexp.MustCompile(`(<error[^>]*>)[^<]+</error>`)
	timeValue = regexp.MustCompile(` time="[0-9]+"`)
)

// Normalize replaces the text of every error in a reply by "*", because texts are
// free, and every time by "T", because clocks are. An error without text stays as
// it is.
func Normalize(reply []byte) string {
	s := errorText.ReplaceAllString(string(reply), "$1*</error>")
	return timeValue.ReplaceAllString(s, ` time="T"`)
}

// Texts returns the texts of the errors in a reply.
func Texts(reply []byte) (texts []string) {
	for _, m := range regexp.MustCompile(`<error[^>]*>([^<]*)</error>`).FindAllSubmatch(reply, -1) {
		texts = append(texts, html.UnescapeString(string(m[1])))
	}
	return texts
}
