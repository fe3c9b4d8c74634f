//! Language of texts for users.

/// Language of a text for users.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Language {
    /// English, the default.
    #[default]
    English,
    /// Japanese.
    Japanese,
}

impl Language {
    /// Detects the language of a text: Japanese if it has kana or kanji, else English.
    ///
    /// ```
    /// use interzone_execution::files::Language;
    ///
    /// assert_eq!(Language::detect("この表を要約して"), Language::Japanese);
    /// assert_eq!(Language::detect("Summarise this table"), Language::English);
    /// ```
    pub fn detect(text: &str) -> Self {
        let japanese = |c: char| {
            matches!(c,
                '\u{3040}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}'
                | '\u{4e00}'..='\u{9fff}' | '\u{ff66}'..='\u{ff9f}')
        };
        if text.chars().any(japanese) {
            Self::Japanese
        } else {
            Self::English
        }
    }
}
