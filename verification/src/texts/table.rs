//! The table itself. Whoever adds a case must write both sentences: nothing here has a catch-all.

use super::{Language, LeftOut, Phrase, Refusal};
use interzone_protocol::zone::MessageKey;

/// One sentence in all languages.
pub(super) struct Both {
    ja: &'static str,
    en: &'static str,
}

impl Both {
    pub(super) const fn in_language(&self, language: Language) -> &'static str {
        match language {
            Language::Ja => self.ja,
            Language::En => self.en,
        }
    }
}

const fn both(ja: &'static str, en: &'static str) -> Both {
    Both { ja, en }
}

pub(super) const fn error(key: MessageKey) -> Both {
    match key {
        MessageKey::Generic => both(
            "エラーが発生しました。しばらくしてからもう一度お試しください。",
            "Something went wrong. Please try again later.",
        ),
        MessageKey::ModelSlow => both(
            "AI モデルの応答に時間がかかっています。しばらくしてからもう一度お試しください。",
            "The AI model is slow to respond. Please try again later.",
        ),
        MessageKey::OutOfTime => both(
            "時間内に処理が終わりませんでした。内容を分けるか、しばらくしてからもう一度お試しください。",
            "This took too long and was given up. Please try again later, or ask for less at a time.",
        ),
        MessageKey::Busy => both(
            "ただいま混み合っています。1 分ほど待ってからもう一度お試しください。",
            "The service is busy. Please try again in a minute.",
        ),
        MessageKey::AskAdmin => both(
            "接続または権限の設定に問題があります。管理者にご連絡ください。",
            "There is a problem with a connection or a permission. Please contact your administrator.",
        ),
        MessageKey::UnexpectedReply => both(
            "予期しない応答が返ってきました。もう一度お試しください。",
            "The reply could not be understood. Please try again.",
        ),
        MessageKey::AttachmentNotFetched => both(
            "添付ファイルを取得できませんでした。もう一度アップロードしてください。",
            "An attachment could not be fetched. Please upload it again.",
        ),
        MessageKey::FileTooLarge => both(
            "ファイルが大きすぎます。画像は 10 MB、文書は 5 MB までです。",
            "A file is too large. Images may have up to 10 MB, documents up to 5 MB.",
        ),
        MessageKey::UnsupportedFormat => both(
            "対応していない形式のファイルです。使えるのは PNG、JPEG、GIF、WebP の画像と、PDF、Word、Excel、PowerPoint、CSV、テキストです。",
            "This file format is not supported. Supported are PNG, JPEG, GIF and WebP images, and PDF, Word, Excel, PowerPoint, CSV and text files.",
        ),
        MessageKey::Unreadable => both(
            "ファイルを読み取れませんでした。破損しているか、パスワードで保護されている可能性があります。",
            "A file could not be read. It may be damaged or protected by a password.",
        ),
        MessageKey::FileReadingUnavailable => both(
            "現在ファイルを読み取れません。1 分ほど待ってからもう一度お試しください。",
            "File reading is temporarily unavailable. Please try again in a minute.",
        ),
        MessageKey::FileNotMade => both(
            "ファイルを作成できませんでした。もう一度お試しください。",
            "The file could not be created. Please try again.",
        ),
        MessageKey::BackgroundFailed => both(
            "バックグラウンドでの処理に失敗しました。もう一度お試しください。",
            "The background job failed. Please try again.",
        ),
        MessageKey::AskSomething => both(
            "質問を書いてください。例：「先月の売上を CSV にまとめて」",
            "Please ask me something, for example: \"Summarise last month's sales as CSV\".",
        ),
        MessageKey::Stopped => both("停止しました。", "Stopped."),
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
            format!("質問の回数が上限に達しました。{} 秒後にもう一度お試しください。", whole_seconds(*after))
        }
        (Refusal::RateLimited { after }, Language::En) => {
            let seconds = whole_seconds(*after);
            let unit = if seconds == 1 { "second" } else { "seconds" };
            format!("You have reached the limit of questions. Please try again in {seconds} {unit}.")
        }
        (Refusal::Empty, _) => error(MessageKey::AskSomething).in_language(language).to_owned(),
        (Refusal::TooLong { length, limit }, Language::Ja) => {
            format!("文章が長すぎます（{length} 文字）。{limit} 文字以内にしてください。")
        }
        (Refusal::TooLong { length, limit }, Language::En) => {
            format!("Your message is too long ({length} characters). Please keep it within {limit} characters.")
        }
        (Refusal::MissingPermission, _) => error(MessageKey::AskAdmin).in_language(language).to_owned(),
        (Refusal::Busy, _) => error(MessageKey::Busy).in_language(language).to_owned(),
        (Refusal::Fault, _) => error(MessageKey::Generic).in_language(language).to_owned(),
    }
}

/// Rounded up, for who comes back too early is refused once more.
fn whole_seconds(wait: std::time::Duration) -> u64 {
    let more = u64::from(wait.subsec_nanos() > 0);
    wait.as_secs().saturating_add(more).max(1)
}

pub(super) const fn phrase(phrase: Phrase) -> Both {
    match phrase {
        Phrase::Thinking => both("考えています…", "is thinking…"),
        Phrase::Stop => both("停止", "Stop"),
        Phrase::StopHint => both("回答を作成しています。", "Working on the answer."),
        Phrase::NothingToStop => both(
            "この回答はもう終わっています。",
            "This answer is already finished.",
        ),
        Phrase::NotYours => both(
            "停止できるのは質問した人だけです。",
            "Only the person who asked can stop this.",
        ),
        Phrase::NoAnswer => both("回答を得られませんでした。", "There was no answer to this."),
        Phrase::Rephrase => both(
            "この内容は受け付けられませんでした。表現を変えてもう一度お試しください。",
            "This could not be accepted. Please rephrase it and try again.",
        ),
        Phrase::NoAgent => both(
            "いま対応できるエージェントがありません。しばらくしてからもう一度お試しください。",
            "No agent is available at the moment. Please try again later.",
        ),
        Phrase::Good => both("役に立った", "Helpful"),
        Phrase::Bad => both("役に立たなかった", "Not helpful"),
    }
}

pub(super) fn left_out(language: Language, name: &str, why: LeftOut) -> String {
    let reason = match why {
        LeftOut::TooMany => both(
            "添付が多すぎるため（5 件まで）",
            "there are more than 5 attachments",
        ),
        LeftOut::TooLarge => both(
            "大きすぎるため（画像は 10 MB、文書は 5 MB まで）",
            "it is too large (images up to 10 MB, documents up to 5 MB)",
        ),
        LeftOut::Unsupported => both("対応していない形式のため", "its format is not supported"),
        LeftOut::NotFetched => both(
            "取得できなかったため。もう一度アップロードしてみてください",
            "it could not be fetched; please try to upload it again",
        ),
        LeftOut::NotPermitted => both(
            "ファイルを読む権限がないため。管理者にご連絡ください",
            "I am not allowed to read files; please contact your administrator",
        ),
        LeftOut::Unreadable => both("読み取れなかったため", "it could not be read"),
        LeftOut::ReadingUnavailable => both(
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
