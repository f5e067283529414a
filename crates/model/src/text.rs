//! Texts that come from outside and are kept.

/// A text cut to so many bytes at a character's border, on one line and without control characters: JSON
/// would write six bytes for one, and a terminal would obey them.
pub fn bounded(text: &str, max_bytes: usize) -> String {
    let mut end = text.len().min(max_bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters_and_keeps_to_its_line() {
        assert_eq!(bounded("a\nb\u{1b}c", 10), "a b c");
        assert_eq!(bounded("äöü", 4), "äö");
        assert_eq!(bounded("äöü", 3), "ä");
        assert_eq!(bounded("", 3), "");
    }
}
