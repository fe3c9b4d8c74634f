//! The texts. Matches are exhaustive without a catch-all, so each new case needs both languages.

use super::{Language, Refusal, SkipReason, UserPhrase};
use interzone_protocol::zone::UserMessageKey;

/// A text in both languages.
pub(super) struct BilingualText {
    ja: &'static str,
    en: &'static str,
}

impl BilingualText {
    pub(super) const fn in_language(&self, language: Language) -> &'static str {
        match language {
            Language::Ja => self.ja,
            Language::En => self.en,
        }
    }
}

const fn bilingual(ja: &'static str, en: &'static str) -> BilingualText {
    BilingualText { ja, en }
}

pub(super) const fn error(key: UserMessageKey) -> BilingualText {
    match key {
        UserMessageKey::Generic => bilingual(
            "エラーが発生しました。しばらくしてからもう一度お試しください。",
            "Something went wrong. Please try again later.",
        ),
        UserMessageKey::ModelSlow => bilingual(
            "AI モデルの応答に時間がかかっています。しばらくしてからもう一度お試しください。",
            "The AI model is slow to respond. Please try again later.",
        ),
        UserMessageKey::OutOfTime => bilingual(
            "時間内に処理が終わりませんでした。内容を分けるか、しばらくしてからもう一度お試しください。",
            "This took too long and was stopped. Please try again later, or split the request.",
        ),
        UserMessageKey::Busy => bilingual(
            "ただいま混み合っています。1 分ほど待ってからもう一度お試しください。",
            "The service is busy. Please try again in a minute.",
        ),
        UserMessageKey::AskAdmin => bilingual(
            "接続または権限の設定に問題があります。管理者にご連絡ください。",
            "There is a problem with a connection or a permission. Please contact your administrator.",
        ),
        UserMessageKey::UnexpectedReply => bilingual(
            "予期しない応答が返ってきました。もう一度お試しください。",
            "The reply could not be understood. Please try again.",
        ),
        UserMessageKey::AttachmentNotFetched => bilingual(
            "添付ファイルを取得できませんでした。もう一度アップロードしてください。",
            "An attachment could not be downloaded. Please upload it again.",
        ),
        UserMessageKey::FileTooLarge => bilingual(
            "ファイルが大きすぎます。画像は 10 MB、文書は 5 MB までです。",
            "A file is too large. Images may have up to 10 MB, documents up to 5 MB.",
        ),
        UserMessageKey::UnsupportedFormat => bilingual(
            "対応していない形式のファイルです。使えるのは PNG、JPEG、GIF、WebP の画像と、PDF、Word、Excel、PowerPoint、CSV、テキストです。",
            "This file format is not supported. Supported are PNG, JPEG, GIF and WebP images, and PDF, Word, Excel, PowerPoint, CSV and text files.",
        ),
        UserMessageKey::Unreadable => bilingual(
            "ファイルを読み取れませんでした。破損しているか、パスワードで保護されている可能性があります。",
            "A file could not be read. It may be damaged or protected by a password.",
        ),
        UserMessageKey::FileReadingUnavailable => bilingual(
            "現在ファイルを読み取れません。1 分ほど待ってからもう一度お試しください。",
            "File reading is temporarily unavailable. Please try again in a minute.",
        ),
        UserMessageKey::FileNotMade => bilingual(
            "ファイルを作成できませんでした。もう一度お試しください。",
            "The file could not be created. Please try again.",
        ),
        UserMessageKey::BackgroundFailed => bilingual(
            "バックグラウンドでの処理に失敗しました。もう一度お試しください。",
            "The background job failed. Please try again.",
        ),
        UserMessageKey::AskSomething => bilingual(
            "質問を書いてください。例：「先月の売上を CSV にまとめて」",
            "Please ask me something, for example: \"Summarise last month's sales as CSV\".",
        ),
        UserMessageKey::Stopped => bilingual("停止しました。", "Stopped."),
    }
}

pub(super) fn refusal(language: Language, refusal: &Refusal) -> String {
    match (refusal, language) {
        (Refusal::UnknownEntity, Language::Ja) => {
            "この質問には答えられません。ユーザーまたはチャンネルを確認できませんでした。管理者にご連絡ください。".to_owned()
        }
        (Refusal::UnknownEntity, Language::En) => {
            "I cannot answer this: the user or the channel could not be verified. Please contact your administrator.".to_owned()
        }
        (Refusal::NotAllowed, Language::Ja) => {
            "ここでの利用は許可されていません。利用したい場合は管理者にご連絡ください。".to_owned()
        }
        (Refusal::NotAllowed, Language::En) => {
            "You are not allowed to use me here. To get access, please contact your administrator.".to_owned()
        }
        (Refusal::RateLimited { after }, Language::Ja) => {
            format!("質問の回数が上限に達しました。{} 秒後にもう一度お試しください。", round_up_seconds(*after))
        }
        (Refusal::RateLimited { after }, Language::En) => {
            let seconds = round_up_seconds(*after);
            let unit = if seconds == 1 { "second" } else { "seconds" };
            format!("You have reached the limit of questions. Please try again in {seconds} {unit}.")
        }
        (Refusal::Empty, _) => error(UserMessageKey::AskSomething).in_language(language).to_owned(),
        (Refusal::TooLong { length, limit }, Language::Ja) => {
            format!("文章が長すぎます（{length} 文字）。{limit} 文字以内にしてください。")
        }
        (Refusal::TooLong { length, limit }, Language::En) => {
            format!("Your message is too long ({length} characters). Please keep it within {limit} characters.")
        }
        (Refusal::MissingPermission, _) => error(UserMessageKey::AskAdmin).in_language(language).to_owned(),
        (Refusal::Busy, _) => error(UserMessageKey::Busy).in_language(language).to_owned(),
        (Refusal::InternalError, _) => error(UserMessageKey::Generic).in_language(language).to_owned(),
    }
}

/// Rounds up, because a user who returns too early is refused again.
fn round_up_seconds(wait: std::time::Duration) -> u64 {
    let round_up = u64::from(wait.subsec_nanos() > 0);
    wait.as_secs().saturating_add(round_up).max(1)
}

pub(super) const fn phrase(phrase: UserPhrase) -> BilingualText {
    match phrase {
        UserPhrase::Thinking => bilingual("考えています…", "is thinking…"),
        UserPhrase::Stop => bilingual("停止", "Stop"),
        UserPhrase::StopHint => bilingual("回答を作成しています。", "Working on the answer."),
        UserPhrase::NothingToStop => bilingual(
            "この回答はすでに完了しています。",
            "This answer is already finished.",
        ),
        UserPhrase::NotYours => bilingual(
            "停止できるのは質問した人だけです。",
            "Only the person who asked can stop this.",
        ),
        UserPhrase::NoAnswer => {
            bilingual("回答を得られませんでした。", "There was no answer to this.")
        }
        UserPhrase::Rephrase => bilingual(
            "この内容は受け付けられませんでした。表現を変えてもう一度お試しください。",
            "This could not be accepted. Please rephrase it and try again.",
        ),
        UserPhrase::NoAgent => bilingual(
            "いま対応できるエージェントがありません。しばらくしてからもう一度お試しください。",
            "No agent is available at the moment. Please try again later.",
        ),
        UserPhrase::Good => bilingual("役に立った", "Helpful"),
        UserPhrase::Bad => bilingual("役に立たなかった", "Not helpful"),
    }
}

pub(super) fn skipped_file(language: Language, name: &str, skip_reason: SkipReason) -> String {
    let reason = match skip_reason {
        SkipReason::TooMany => bilingual(
            "添付が多すぎるため（5 件まで）",
            "there are more than 5 attachments",
        ),
        SkipReason::TooLarge => bilingual(
            "大きすぎるため（画像は 10 MB、文書は 5 MB まで）",
            "it is too large (images up to 10 MB, documents up to 5 MB)",
        ),
        SkipReason::Unsupported => {
            bilingual("対応していない形式のため", "its format is not supported")
        }
        SkipReason::NotFetched => bilingual(
            "取得できなかったため。もう一度アップロードしてみてください",
            "it could not be downloaded; please upload it again",
        ),
        SkipReason::NotPermitted => bilingual(
            "ファイルを読む権限がないため。管理者にご連絡ください",
            "I am not allowed to read files; please contact your administrator",
        ),
        SkipReason::Unreadable => bilingual("読み取れなかったため", "it could not be read"),
        SkipReason::ReadingUnavailable => bilingual(
            "現在ファイルを読み取れないため。1 分ほど待ってからもう一度お試しください",
            "file reading is temporarily unavailable; please try again in a minute",
        ),
    };
    let reason = reason.in_language(language);
    match language {
        Language::Ja => format!("添付ファイル {name} は使っていません：{reason}。"),
        Language::En => format!("The attachment {name} was left out: {reason}."),
    }
}

pub(super) fn file_not_posted(language: Language, name: &str) -> String {
    match language {
        Language::Ja => format!(
            "ファイル {name} を投稿できませんでした。しばらくしてからもう一度お試しください。"
        ),
        Language::En => {
            format!("The file {name} could not be posted. Please try again later.")
        }
    }
}

pub(super) fn file_too_large(language: Language, name: &str) -> String {
    match language {
        Language::Ja => {
            format!("ファイル {name} は大きすぎるため、投稿していません。")
        }
        Language::En => {
            format!("The file {name} was left out: it is too large to be posted.")
        }
    }
}
